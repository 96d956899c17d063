//! The carts over HTTP: routes, and errors as problem details.

// ANCHOR: all
use std::error::Error;
use std::iter::successors;
use std::sync::Arc;

use annals::entity::{AskError, Problem, Region};
use annals::projection::{Rows, Running};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cart::{Add, Cart, CartError, Pay};
use crate::open_carts::{OpenCart, OpenCarts};

// ANCHOR: routes
pub(crate) type Carts = Region<Cart>;
pub(crate) type OpenView = Arc<Running<Rows<OpenCarts>>>;

/// Without the view, there is no list of carts.
pub(crate) fn router(carts: Carts, open: Option<OpenView>) -> Router {
    let router = Router::new()
        .route("/carts/{id}", get(show))
        .route("/carts/{id}/items", post(add))
        .route("/carts/{id}/payment", post(pay))
        .with_state(carts.clone());
    let Some(open) = open else {
        return router;
    };
    let lists = Router::new().route("/carts", get(list).post(add_listed));
    router.merge(lists.with_state((carts, open)))
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

/// A page of the list: how long it is, and where the page before it ended.
#[derive(Deserialize)]
struct Page {
    limit: Option<u32>,
    after: Option<String>,
}

async fn list(
    State((_, open)): State<(Carts, OpenView)>,
    Query(Page { limit, after }): Query<Page>,
) -> Result<Json<Value>, HttpError> {
    let query = open.ordered().limit(limit.unwrap_or(50)).after(after);
    let page = query.page().await?;
    let carts = page.rows.into_iter();
    let carts: Vec<Value> = carts.map(|(id, cart)| listed(&id, Some(cart))).collect();
    Ok(Json(json!({"carts": carts, "next": page.next})))
}

#[derive(Deserialize)]
struct AddTo {
    id: String,
    item: String,
}

/// Adds an item, and replies when the list includes it.
async fn add_listed(
    State((carts, open)): State<(Carts, OpenView)>,
    Json(AddTo { id, item }): Json<AddTo>,
) -> Result<Json<Value>, HttpError> {
    let (_, position) = carts.ask_at(&id, Add { item }).await?;
    let cart = open.get_after(&position, &id).await?;
    Ok(Json(listed(&id, cart)))
}

/// A cart as it is listed; without items if it was paid in the meantime.
fn listed(id: &str, cart: Option<OpenCart>) -> Value {
    json!({"id": id, "items": cart.map(|OpenCart(items)| items)})
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
