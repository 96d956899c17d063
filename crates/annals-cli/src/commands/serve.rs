//! `annals serve`: the HTTP server.

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use annals::{Error, Result};
use clap::ValueEnum;
use tokio::net::TcpListener;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::Context;
use super::log::Every;
use crate::args::{Given, given};
use crate::interrupt::Interrupts;
use crate::output;
use crate::serve::{self, App, Guard, Limits, Otlp};

/// The collector for all programs of an environment.
const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Serve journals, snapshots and durable state over HTTP: JSON in and out, described at /openapi.json.
/// Stops cleanly on Ctrl-C and SIGTERM
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The address to listen on; port 0: any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070", value_parser = parse_address)]
    listen: SocketAddr,
    /// Serve remote clients without a token
    #[arg(long)]
    insecure: bool,
    /// The most bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    body_limit: usize,
    /// The most connections at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// The most requests in flight; others get 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests)]
    max_requests: usize,
    /// How many seconds a shutdown waits for requests in flight
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().grace.as_secs())]
    grace: u64,
    /// How many seconds a client may take to send a head or a body, or stall in reading
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().head_time.as_secs())]
    patience: u64,
    /// How often the log's buffer is swept into slots: 60s, 500ms, 5m
    #[arg(long, value_name = "T", default_value = "60s")]
    sweep_every: Every,
    /// Leave the log's buffer to another sweeper
    #[arg(long, conflicts_with = "sweep_every")]
    no_sweep: bool,
    /// What to log on standard error: error, warn, info, debug, or by module like `annals=debug`
    #[arg(
        long,
        value_name = "FILTER",
        env = "ANNALS_LOG",
        default_value = "info"
    )]
    log: String,
    /// The OpenTelemetry collector for spans of requests and store calls, such as
    /// http://127.0.0.1:4318 [default: OTEL_EXPORTER_OTLP_ENDPOINT, if it is http]
    #[arg(long, value_name = "URL")]
    otlp: Option<Given<String>>,
    /// The format of the log [default: text at a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

fn parse_address(text: &str) -> Result<SocketAddr> {
    text.parse().map_err(|_| {
        Error::invalid(
            "an address is IP:PORT, such as 127.0.0.1:7070, or 0.0.0.0:7070 for remote clients",
        )
        .fact("address", text)
    })
}

impl Serve {
    /// The token is the one that clients send as `Authorization: Bearer TOKEN`.
    pub(crate) async fn run(self, context: &Context, token: Option<&str>) -> Result<ExitCode> {
        let guard = Guard::new(self.listen, token, self.insecure)?;
        let (otlp, unused) = self.otlp()?;
        self.start_traces(otlp.as_ref())?;
        if let Some(error) = unused {
            tracing::warn!(%error, "no spans are sent");
        }
        let allowed = raise_file_limit();
        let limits = self.limits();
        if allowed.is_some_and(|allowed| allowed < limits.connections as u64) {
            tracing::warn!(
                allowed,
                "the limit of open files is lower than that of connections; raise `ulimit -n`"
            );
        }
        let interrupts = Interrupts::listen()?;
        // First, so that nothing is created if another program has the port.
        let listener = TcpListener::bind(self.listen).await.map_err(|cause| {
            let error = match cause.kind() {
                std::io::ErrorKind::AddrInUse => Error::unavailable(
                    "another program listens on this address; stop it, or choose another with --listen",
                ),
                _ => Error::invalid("cannot listen on this address"),
            };
            error.fact("listen", self.listen).because(cause)
        })?;
        let (app, store) = App::open(&context.settings, guard, limits).await?;
        let address = listener
            .local_addr()
            .map_err(|cause| Error::unavailable("cannot read the address").because(cause))?;
        // At a terminal the line below is enough.
        if context.output.is_json() {
            tracing::info!(%address, "listening");
        }
        let text = format!("annals serves {}; Ctrl-C stops it", url_to_open(address));
        let object = serde_json::json!({"listening": format!("http://{address}")});
        context.output.line(&object, &text)?;
        let stop = async {
            // Either signal asks for a clean stop.
            let _ = interrupts.or(std::future::pending::<()>()).await;
        };
        let served = serve::run(listener, app, stop).await;
        store.close().await;
        if let Some(otlp) = otlp {
            otlp.finish().await;
        }
        tracing::info!("stopped");
        served.map(|()| ExitCode::SUCCESS)
    }

    /// Where spans go. A wrong flag is an error. The environment's variable is meant for every program,
    /// so one that this program cannot use is reported and ignored.
    fn otlp(&self) -> Result<(Option<Otlp>, Option<Error>)> {
        if let Some(address) = given(&self.otlp) {
            return Otlp::start(&address).map(|otlp| (Some(otlp), None));
        }
        let address = std::env::var(OTLP_ENDPOINT).ok();
        let address = address.filter(|address| !address.is_empty());
        Ok(match address.map(|address| Otlp::start(&address)) {
            None => (None, None),
            Some(Ok(otlp)) => (Some(otlp), None),
            Some(Err(error)) => (None, Some(error)),
        })
    }

    fn limits(&self) -> Limits {
        let patience = Duration::from_secs(self.patience.max(1));
        Limits {
            body_bytes: self.body_limit,
            connections: self.max_connections.min(1 << 20),
            requests: self.max_requests.clamp(1, 1 << 20),
            grace: Duration::from_secs(self.grace),
            head_time: patience,
            body_time: patience,
            write_time: patience,
            sweep_every: (!self.no_sweep).then(|| self.sweep_every.duration()),
            ..Limits::default()
        }
    }

    /// Lines on standard error, and spans for a collector.
    fn start_traces(&self, otlp: Option<&Otlp>) -> Result<()> {
        let filter = self.log.parse::<Targets>().map_err(|cause| {
            Error::invalid("cannot parse --log")
                .fact("log", &self.log)
                .because(cause)
        })?;
        let is_terminal = std::io::stderr().is_terminal();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(output::is_coloured(&std::io::stderr()))
            .with_writer(std::io::stderr);
        let is_json = match self.log_format {
            Some(format) => format == LogFormat::Json,
            None => !is_terminal,
        };
        let lines = match is_json {
            true => lines.json().boxed(),
            false => lines.boxed(),
        };
        let traces = tracing_subscriber::registry();
        let started = match otlp {
            // The filter of lines does not apply to spans.
            Some(otlp) => traces
                .with(lines.with_filter(filter))
                .with(otlp.layer())
                .try_init(),
            None => traces.with(lines).with(filter).try_init(),
        };
        started.map_err(|cause| Error::invalid("cannot start the traces").because(cause))
    }
}

/// Raises the soft limit of open files to the hard one, as each connection is a file; returns it.
fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

/// The URL to open in a browser on this machine.
fn url_to_open(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_every_address_is_opened_on_this_machine() {
        let url = |address: &str| url_to_open(address.parse().unwrap());
        assert_eq!(url("0.0.0.0:7070"), "http://127.0.0.1:7070");
        assert_eq!(url("[::]:7070"), "http://[::1]:7070");
        assert_eq!(url("192.168.0.2:80"), "http://192.168.0.2:80");
    }
}
