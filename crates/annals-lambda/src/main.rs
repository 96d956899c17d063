//! The binary of every function: `bootstrap` in the archive of the Lambda function. `ANNALS_STEP`
//! selects the step.

use annals_lambda::{Environment, Function};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value as Json;

#[tokio::main]
async fn main() -> Result<(), Error> {
    lambda_runtime::tracing::init_default_subscriber();
    let environment = Environment::read(|name| std::env::var(name).ok())?;
    let function = Box::pin(Function::open(environment)).await?;
    let function = &function;
    lambda_runtime::run(service_fn(async move |event: LambdaEvent<Json>| {
        let deadline_ms = event.context.deadline;
        // Boxed: the future is too large for the layers of the runtime around it.
        let answer = Box::pin(function.handle_until(event.payload, deadline_ms));
        answer.await.map_err(Error::from)
    }))
    .await
}
