//! scratch
#![allow(clippy::print_stdout, missing_docs)]
#[tokio::main]
async fn main() {
    let mut b = dogwatch_apiserver::ApiServer::builder().bind("127.0.0.1:18080".parse().unwrap());
    if let Some(t) = std::env::args().nth(1) {
        b = b.token(t);
    }
    let server = b.start().await.unwrap();
    println!("ready {}", server.url());
    std::future::pending::<()>().await;
}
