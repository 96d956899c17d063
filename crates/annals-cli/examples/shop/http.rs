//! The cart over HTTP: routes, and errors as problem details.

// ANCHOR: all
use std::error::Error;
use std::iter::successors;

use annals::entity::{AskError, Problem, Region};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::cart::{Add, Cart, CartError, Pay};

// ANCHOR: routes
pub(crate) type Carts = Region<Cart>;

pub(crate) fn router(carts: Carts) -> Router {
    Router::new()
        .route("/carts/{id}", get(show))
        .route("/carts/{id}/items", post(add))
        .route("/carts/{id}/payment", post(pay))
        .with_state(carts)
}

async fn show(
    State(carts): State<Carts>,
    Path(id): Path<String>,
) -> Result<Json<Value>, HttpError> {
    let view = |cart: &Cart| json!({"items": cart.items, "paid": cart.is_paid});
    Ok(Json(carts.view(&id, view).await?))
}

async fn add(
    State(carts): State<Carts>,
    Path(id): Path<String>,
    Json(command): Json<Add>,
) -> Result<Json<Value>, HttpError> {
    let count = carts.ask(&id, command).await?;
    Ok(Json(json!({"count": count})))
}

async fn pay(
    State(carts): State<Carts>,
    Path(id): Path<String>,
    Json(command): Json<Pay>,
) -> Result<Json<Value>, HttpError> {
    let bought = carts.ask(&id, command).await?;
    Ok(Json(json!({"bought": bought})))
}
// ANCHOR_END: routes

// ANCHOR: errors
/// An error as problem details (RFC 9457).
struct HttpError(AskError<CartError>);

impl<E: Into<AskError<CartError>>> From<E> for HttpError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let problem = self.0.problem();
        // An overload is no error of the service.
        let is_busy = matches!(self.0, AskError::Overloaded { .. } | AskError::Stopped);
        if problem.status >= 500 && !is_busy {
            log(&self.0);
        }
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let media_type = [(CONTENT_TYPE, Problem::MEDIA_TYPE)];
        let retry_after = (status == 503 && problem.retryable).then_some([(RETRY_AFTER, "1")]);
        (status, media_type, retry_after, Json(problem)).into_response()
    }
}

/// Prints an error with its causes, which the client does not get.
fn log(error: &dyn Error) {
    let errors = successors(Some(error), |&error| error.source());
    let messages: Vec<String> = errors.map(ToString::to_string).collect();
    eprintln!("{}", messages.join(": "));
}
// ANCHOR_END: errors
// ANCHOR_END: all
