//! A process that runs the view over the server, until its input ends.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use annals::Annals;
use annals::layout::AnnalsLayout;
use annals::projection::{Rows, RunSettings, Running};
use rustix::process::{Pid, Signal, kill_process};

use super::super::{Client, RemoteItems};
use super::chains::Chains;
use super::{LEASE, SHARES};

/// The environment variable with the address of the server.
const SERVER: &str = "ANNALS_RUNNERS_SERVER";

/// The store of a server, as every process of the test opens it.
pub(super) async fn open(address: &str) -> Annals {
    let items = RemoteItems::new(Client::new(address, None).unwrap());
    let opened = Annals::create(items, &AnnalsLayout::default()).await;
    opened.unwrap()
}

/// Starts the view in this process.
pub(super) async fn start(annals: &Annals) -> Running<Rows<Chains>> {
    let view = annals.projections().view::<Chains>().shares(SHARES);
    let view = view.settings(RunSettings::default().lease(LEASE));
    view.start().await.unwrap()
}

/// The child process.
#[ignore = "the child process of another test"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_runs() {
    let Ok(address) = std::env::var(SERVER) else {
        return;
    };
    let view = start(&open(&address).await).await;
    let end = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(end).await.unwrap().unwrap();
    view.stop().await;
}

/// A child process. Killed when dropped, even if it is stopped.
pub(super) struct Runner {
    process: Child,
    /// When a paused one goes on.
    pub(super) paused_until: Option<Duration>,
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Runner {
    pub(super) fn start(address: &str) -> Self {
        let child = "remote::runners::runner::child_that_runs";
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored", "--nocapture"])
            .env(SERVER, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            process,
            paused_until: None,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    pub(super) fn pause(&mut self, until: Duration) {
        self.signal(Signal::STOP);
        self.paused_until = Some(until);
    }

    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused_until = None;
    }

    /// Lets it release its shares and end.
    pub(super) fn finish(mut self) {
        drop(self.process.stdin.take());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "a runner ended by itself: {status}");
    }

    pub(super) fn assert_runs(&mut self) {
        let status = self.process.try_wait().unwrap();
        assert!(status.is_none(), "a runner ended by itself: {status:?}");
    }
}
