//! A small orders API that lives in memory: the upstream that `oncegate dev` brings along.
//!
//! `POST /orders` creates an order and counts an execution, so that a user can see with bare eyes
//! that a repeated request did not run again; `GET /orders` and `GET /orders/{id}` show what there
//! is.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The most orders that are remembered: enough for any demonstration, and at most a few megabytes.
const ORDERS_MAX: usize = 10_000;

/// The most orders that one listing shows, so that its answer stays small.
const LISTED_MAX: usize = 100;

/// The longest name of an item, in bytes, so that the table is bounded in bytes too.
const ITEM_BYTES_MAX: usize = 200;

/// A running sample API. It stops when this is dropped.
#[derive(Debug)]
pub struct SampleApi {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl SampleApi {
    /// Serves the sample API on a free port of the loopback address. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// Those of binding a socket.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router()).await {
                tracing::error!(%error, "the sample orders API stopped");
            }
        });
        Ok(Self { address, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SampleApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// What a client asks for.
#[derive(Debug, Deserialize)]
struct NewOrder {
    item: String,
    /// In the smallest unit of the currency.
    amount: u64,
    #[serde(default = "default_currency")]
    currency: String,
}

/// An order as it is answered.
#[derive(Clone, Debug, Serialize)]
struct Order {
    id: String,
    item: String,
    amount: u64,
    currency: String,
    status: &'static str,
    /// Which execution created it: the number a repeated request must not raise.
    execution: u64,
}

#[derive(Debug, Default)]
struct Book {
    executions: u64,
    orders: VecDeque<Order>,
}

impl Book {
    fn add(&mut self, new: NewOrder) -> Order {
        self.executions += 1;
        let order = Order {
            id: format!("ord_{}", self.executions),
            item: new.item,
            amount: new.amount,
            currency: new.currency,
            status: "created",
            execution: self.executions,
        };
        if self.orders.len() == ORDERS_MAX {
            self.orders.pop_front();
        }
        self.orders.push_back(order.clone());
        order
    }
}

/// The lock is held for a few instructions and never across an await.
type Shared = Arc<Mutex<Book>>;

fn router() -> Router {
    Router::new()
        .route("/orders", get(list).post(create))
        .route("/orders/{id}", get(show))
        .with_state(Shared::default())
}

async fn create(
    State(book): State<Shared>,
    body: Result<Json<NewOrder>, JsonRejection>,
) -> Response {
    let new = match body {
        Ok(Json(new)) => new,
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
    if new.item.is_empty() || new.item.len() > ITEM_BYTES_MAX || new.currency.len() != 3 {
        let why = "item must have 1 to 200 bytes and currency three letters";
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, why);
    }
    let order = book.lock().unwrap_or_else(PoisonError::into_inner).add(new);
    let location = format!("/orders/{}", order.id);
    (StatusCode::CREATED, [(header::LOCATION, location)], Json(order)).into_response()
}

async fn list(State(book): State<Shared>) -> Response {
    let book = book.lock().unwrap_or_else(PoisonError::into_inner);
    let newest: Vec<&Order> = book.orders.iter().rev().take(LISTED_MAX).collect();
    Json(json!({ "executions": book.executions, "orders": newest })).into_response()
}

async fn show(State(book): State<Shared>, Path(id): Path<String>) -> Response {
    let book = book.lock().unwrap_or_else(PoisonError::into_inner);
    match book.orders.iter().find(|order| order.id == id) {
        Some(order) => Json(order).into_response(),
        None => refuse(StatusCode::NOT_FOUND, "no such order"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

fn default_currency() -> String {
    "EUR".into()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn ask(router: &Router, method: &str, path: &str, body: &str) -> (Response<()>, String) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (Response::from_parts(parts, ()), String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn an_order_is_created_counted_and_found_again() {
        let router = router();
        let book = r#"{"item":"book","amount":1200}"#;
        let (created, body) = ask(&router, "POST", "/orders", book).await;
        assert_eq!(created.status(), 201);
        assert_eq!(created.headers()[header::LOCATION], "/orders/ord_1");
        let order: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(order["execution"], 1);

        let (found, same) = ask(&router, "GET", "/orders/ord_1", "").await;
        assert_eq!((found.status().as_u16(), same), (200, body));

        ask(&router, "POST", "/orders", book).await;
        let (_, all) = ask(&router, "GET", "/orders", "").await;
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        assert_eq!(all["executions"], 2);
        assert_eq!(all["orders"][0]["id"], "ord_2");
    }

    #[tokio::test]
    async fn a_bad_order_is_refused_and_not_counted() {
        let router = router();
        for bad in
            ["", "{", r#"{"item":""}"#, r#"{"item":"","amount":1}"#, r#"{"item":"a","amount":-1}"#]
        {
            let (refused, _) = ask(&router, "POST", "/orders", bad).await;
            assert!(refused.status().is_client_error(), "{bad}: {}", refused.status());
        }
        let (missing, _) = ask(&router, "GET", "/orders/ord_1", "").await;
        assert_eq!(missing.status(), 404);
    }

    #[test]
    fn the_book_is_bounded() {
        let mut book = Book::default();
        for amount in 0..ORDERS_MAX as u64 + 5 {
            book.add(NewOrder { item: "a".into(), amount, currency: "EUR".into() });
        }
        assert_eq!(book.orders.len(), ORDERS_MAX);
        assert_eq!(book.orders[0].execution, 6);
        assert_eq!(book.executions, ORDERS_MAX as u64 + 5);
    }
}
