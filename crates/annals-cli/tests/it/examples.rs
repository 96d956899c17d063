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
pub(crate) struct Shop {
    process: Child,
    pub(crate) url: String,
}

impl Shop {
    /// The example, in the folder of the binary.
    pub(crate) fn embedded(annals: &Annals) -> Self {
        let mut shop = example("shop");
        shop.current_dir(annals.folder());
        Self::start(shop)
    }

    fn start(mut shop: Command) -> Self {
        let shop = shop.env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped());
        let mut process = shop.spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ");
        let url = address.unwrap().to_owned();
        Self { process, url }
    }

    async fn post(&self, path: &str, body: &'static str) -> (u16, String) {
        let request = Client::new().post(format!("{}{path}", self.url));
        let request = request.header("content-type", "application/json");
        let response = request.body(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let request = Client::new().get(format!("{}{path}", self.url));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Adds an item by way of the list, and asserts that the tutorial shows both replies.
    async fn list_after(&self, body: &'static str) {
        for (status, response) in [self.post("/carts", body).await, self.get("/carts").await] {
            assert_eq!(status, 200, "{response}");
            in_the_tutorial(&response);
        }
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

/// Fills a cart as the tutorial does.
async fn fill(shop: &Shop) {
    for (body, count) in [(r#"{"item":"book"}"#, 1), (r#"{"item":"lamp"}"#, 2)] {
        let (status, response) = shop.post("/carts/42/items", body).await;
        assert_eq!(
            (status, &response),
            (200, &format!(r#"{{"count":{count}}}"#))
        );
        in_the_tutorial(&response);
    }
    in_the_tutorial(&shop.get("/carts/42").await.1);
}

/// Pays for it, twice.
async fn pay(shop: &Shop) {
    for want in [200, 422] {
        let (status, response) = shop.post("/carts/42/payment", r#"{"cents":5000}"#).await;
        assert_eq!(status, want, "{response}");
        in_the_tutorial(&response);
    }
    let (_, paid) = shop.get("/carts/42").await;
    assert_eq!(paid, r#"{"items":["book","lamp"],"paid":true}"#);
}

#[tokio::test]
async fn the_shop_of_the_tutorial_continues_after_it_was_killed() {
    let annals = Annals::embedded();
    let shop = Shop::embedded(&annals);
    fill(&shop).await;
    shop.list_after(r#"{"id":"7","item":"pen"}"#).await;
    drop(shop);

    let shop = Shop::embedded(&annals);
    pay(&shop).await;
    shop.list_after(r#"{"id":"7","item":"ink"}"#).await;
    let (status, refused) = shop.get("/carts?after=nothing").await;
    assert_eq!(status, 400, "{refused}");
    drop(shop);

    let events = annals.run(&["replay", "Cart|42"]).ok().json();
    let manifests: Vec<_> = events.iter().map(|event| &event["manifest"]).collect();
    assert_eq!(manifests, ["Added", "Added", "Paid"]);
}

#[tokio::test]
async fn the_shop_of_the_tutorial_continues_on_dynamodb() {
    let annals = Annals::at(&dynamodb());
    let start = || {
        // The folder and credentials of the binary.
        let mut shop = annals.command(example("shop_dynamodb").get_program().as_ref());
        shop.env("AWS_ENDPOINT_URL", &annals.store_args()[2]);
        shop.env("AWS_REGION", "eu-west-1");
        Shop::start(shop)
    };
    fill(&start()).await;
    let shop = start();
    pay(&shop).await;
    assert_eq!(shop.get("/carts").await.0, 404, "there is no view");
    drop(shop);
    assert_eq!(annals.run(&["replay", "Cart|42"]).ok().json().len(), 3);
}

/// The lines of the program, without its header, modules and imports of the project.
fn program(source: &str) -> Vec<&str> {
    let lines = source.lines().skip_while(|line| !line.starts_with("use "));
    let lines = lines.filter(|line| !line.contains("ANCHOR"));
    lines.filter(|line| !line.starts_with("use ")).collect()
}

/// The lines that another program does not have.
fn own<'a>(program: &[&'a str], other: &[&str]) -> Vec<&'a str> {
    let lines = program.iter().filter(|line| !other.contains(line));
    lines.copied().collect()
}

#[test]
fn the_shop_moves_to_dynamodb_by_two_lines() {
    let embedded = program(include_str!("../../examples/shop/main.rs"));
    let dynamodb = program(include_str!("../../examples/shop_dynamodb/main.rs"));
    let only_embedded = [
        "    let annals = Annals::embedded(\"annals-data\").await?;",
        "    let settings = RunSettings::default().lease(Duration::from_secs(1));",
        "    let open = annals.projections().view::<OpenCarts>().settings(settings);",
        "    let open = Some(Arc::new(open.start().await?));",
    ];
    assert_eq!(own(&embedded, &dynamodb), only_embedded);
    let only_dynamodb = [
        "    let annals = annals_aws::create(&Default::default(), &AnnalsLayout::default()).await?;",
        "    let open: Option<http::OpenView> = None; // projections do not run on DynamoDB yet",
    ];
    assert_eq!(own(&dynamodb, &embedded), only_dynamodb);
}
