//! The trivial upstream: answers every POST with a short 201.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;

use super::UpstreamArgs;

pub(super) async fn run(args: &UpstreamArgs) -> Result<(), String> {
    let app = Router::new().fallback(post(|| async { (StatusCode::CREATED, r#"{"id":1}"#) }));
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| format!("{}: {error}", args.listen))?;
    let stop = async {
        // Without a signal handler the process simply runs until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await
        .map_err(|error| format!("{}: {error}", args.listen))
}
