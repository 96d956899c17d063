//! The store of a server is a store like any other.

use std::sync::Arc;

use annals::items::Items;
use annals_testkit::conformance;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{Client, RemoteItems};
use crate::serve::{self, App, Guard, Limits};
use crate::settings::Settings;

#[tokio::test(flavor = "multi_thread")]
async fn the_store_of_a_server_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        data: folder.path().to_owned(),
        ..Settings::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let guard = Guard::new(address, None, false).unwrap();
    let limits = Limits {
        sweep_every: None,
        ..Limits::default()
    };
    let (app, store) = App::open(&settings, guard, limits).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve::run(listener, app, async {
        let _ = stopped.await;
    }));
    let client = Client::new(&format!("http://{address}"), None).unwrap();
    let items: Arc<dyn Items> = Arc::new(RemoteItems::new(client));
    conformance::run(items).await;
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    store.close().await;
}
