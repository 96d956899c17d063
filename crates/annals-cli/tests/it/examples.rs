//! Runs the examples and checks what they print.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::Client;

use crate::example_run::{example, printed};
use crate::run::{Annals, dynamodb};

#[test]
fn a_bank_answers_over_http() {
    let answers = printed(example("service"));
    assert!(answers.starts_with("200 {\"balance\":10}\n200 {\"already\":1}\n"));
    let rejected = r#""detail":"insufficient funds. balance=`6`","retryable":false}"#;
    assert!(answers.contains(rejected), "{answers}");
    assert!(answers.ends_with("200 {\"balance\":6}\n"), "{answers}");
}

/// The shop of the tutorial as a running process. Killed when dropped.
struct Shop {
    process: Child,
    url: String,
}

impl Shop {
    fn start(mut shop: Command) -> Self {
        let shop = shop.env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped());
        let mut process = shop.spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ");
        let url = format!("{}/carts/42", address.unwrap());
        Self { process, url }
    }

    async fn post(&self, path: &str, body: &'static str) -> (u16, String) {
        let url = format!("{}/{path}", self.url);
        let request = Client::new().post(url).body(body);
        let request = request.header("content-type", "application/json");
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn get(&self) -> String {
        let response = Client::new().get(&self.url).send().await.unwrap();
        response.text().await.unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");

/// Asserts that the tutorial shows a response.
#[track_caller]
fn in_the_tutorial(response: &str) {
    let is_shown = TUTORIAL.lines().any(|line| line == response);
    assert!(is_shown, "the tutorial should show {response}");
}

/// Runs the requests of the tutorial, with the process killed in between.
async fn shop_twice(start: impl Fn() -> Shop) {
    let shop = start();
    for (body, count) in [(r#"{"item":"book"}"#, 1), (r#"{"item":"lamp"}"#, 2)] {
        let (status, response) = shop.post("items", body).await;
        assert_eq!(
            (status, &response),
            (200, &format!(r#"{{"count":{count}}}"#))
        );
        in_the_tutorial(&response);
    }
    in_the_tutorial(&shop.get().await);
    drop(shop);

    let shop = start();
    for want in [200, 422] {
        let (status, response) = shop.post("payment", r#"{"cents":5000}"#).await;
        assert_eq!(status, want, "{response}");
        in_the_tutorial(&response);
    }
    let paid = shop.get().await;
    assert_eq!(paid, r#"{"items":["book","lamp"],"paid":true}"#);
}

#[tokio::test]
async fn the_shop_of_the_tutorial_continues_after_it_was_killed() {
    let annals = Annals::embedded();
    shop_twice(|| {
        let mut shop = example("shop");
        shop.current_dir(annals.folder());
        Shop::start(shop)
    })
    .await;
    let events = annals.run(&["replay", "Cart|42"]).ok().json();
    let manifests: Vec<_> = events.iter().map(|event| &event["manifest"]).collect();
    assert_eq!(manifests, ["Added", "Added", "Paid"]);
}

#[tokio::test]
async fn the_shop_of_the_tutorial_continues_on_dynamodb() {
    let annals = Annals::at(&dynamodb());
    let endpoint = &annals.store_args()[2];
    shop_twice(|| {
        // The folder and credentials of the binary.
        let mut shop = annals.command(example("shop_dynamodb").get_program().as_ref());
        shop.env("AWS_ENDPOINT_URL", endpoint);
        shop.env("AWS_REGION", "eu-west-1");
        Shop::start(shop)
    })
    .await;
    assert_eq!(annals.run(&["replay", "Cart|42"]).ok().json().len(), 3);
}

/// The lines of the program, without its header and modules.
fn program(source: &str) -> Vec<&str> {
    let lines = source.lines().skip_while(|line| !line.starts_with("use "));
    let lines = lines.filter(|line| !line.contains("ANCHOR"));
    lines
        .filter(|line| !line.starts_with("use annals::"))
        .collect()
}

#[test]
fn the_shop_moves_to_dynamodb_by_one_line() {
    let embedded = program(include_str!("../../examples/shop/main.rs"));
    let dynamodb = program(include_str!("../../examples/shop_dynamodb/main.rs"));
    assert_eq!(embedded.len(), dynamodb.len());
    let lines = embedded.into_iter().zip(dynamodb);
    let differ: Vec<(&str, &str)> = lines.filter(|(one, other)| one != other).collect();
    let want = (
        "    let annals = Annals::embedded(\"annals-data\").await?;",
        "    let annals = annals_aws::create(&Default::default(), &AnnalsLayout::default()).await?;",
    );
    assert_eq!(differ, [want]);
}
