//! The comparison with the bare SDK runs; how fast is for `cargo bench` to say.

use annals::ErrorKind;
use annals::items::{Items, TableName};
use annals_aws::bench::{Load, compare};

use crate::server::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_clients_have_their_turns() {
    let store = open().await;
    let load = Load {
        rounds: 3,
        puts: 20,
        tasks: 4,
    };
    let name: TableName = "annals-bench".parse().unwrap();
    let measured = compare(&store, name.clone(), load).await.unwrap();
    assert_eq!(measured.rounds.len(), 3);
    assert!(measured.ratio() > 0.0);
    let left = store.describe_table(&name).await.unwrap();
    assert_eq!(left, None, "the table is dropped");
    let nothing = compare(&store, name, Load { puts: 0, ..load }).await;
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::Invalid);
}
