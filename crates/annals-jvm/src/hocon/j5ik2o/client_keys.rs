//! Every key of the client of j5ik2o's plugin, as `keys` has those of its sections.

use super::super::keys::Kind;
use super::keys::Fate::{Becomes, Chooses, NotApplicable};
use super::keys::{CLASS, Fate, Row, THREADS, row};

const CREDENTIALS: Fate = NotApplicable(
    "credentials are never settings; use AWS's own chain, such as AWS_PROFILE, AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or a role",
);
const DAX: Fate = NotApplicable("for DAX, which the plugin cannot start either");
const BATCHES: Fate = NotApplicable("batches always have DynamoDB's maximum size");
const SOCKETS: Fate = NotApplicable("not supported by the client");
const NTLM: Fate = NotApplicable("for NTLM, which the client does not support");
const IDLE: Fate = NotApplicable(
    "idle connections are always closed, after aws-client-config.connection-max-idle-millis",
);
const TIMEOUT: &str = "aws-client-config.connection-timeout";
const CONNECTIONS: &str = "aws-client-config.max-connections";
const SOCKET: &str = "aws-client-config.socket-timeout";
const MAX_IDLE: &str = "aws-client-config.connection-max-idle-millis";
const REQUEST: &str = "aws-client-config.request-timeout";
const OPERATION: &str = "aws-client-config.client-execution-timeout";

/// `dynamo-db-client`, in all three sections: keys of every client.
pub(super) const CLIENT: &[Row] = &[
    row("access-key-id", "", CREDENTIALS),
    row("secret-access-key", "", CREDENTIALS),
    row("endpoint", "", Becomes("endpoint", Kind::Endpoint)),
    row("region", "", Becomes("region", Kind::Text)),
    row(
        "client-version",
        "v2",
        Chooses(
            "which keys are used, those of `v1` or of `v2`; in `dynamo-db-state` also `stored-revision`, since the plugin's modules differ there",
        ),
    ),
    row(
        "client-type",
        "async",
        Chooses("which keys of `v2` are used, those of `async` or of `sync`"),
    ),
    row("batch-get-item-limit", "100", BATCHES),
    row("batch-write-item-limit", "25", BATCHES),
    row("v1-dax.*", "", DAX),
    row("v2-dax.*", "", DAX),
];

/// Below `dynamo-db-client.v2`.
pub(super) const V2: &[Row] = &[
    row("v2.dispatcher-name", "", THREADS),
    row("v2.headers", "", SOCKETS),
    row("v2.retry-policy-provider-class-name", "the plugin's", CLASS),
    row(
        "v2.retry-mode",
        "",
        NotApplicable("has no effect in the plugin either; aws-client-config has the retries"),
    ),
    row(
        "v2.execution-interceptor-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v2.execution-interceptor-class-names", "", CLASS),
    row("v2.api-call-timeout", "", Becomes(OPERATION, Kind::Millis)),
    row(
        "v2.api-call-attempt-timeout",
        "",
        Becomes(REQUEST, Kind::Millis),
    ),
    row(
        "v2.metric-publishers-provider-class-names",
        "the plugin's",
        CLASS,
    ),
    row("v2.metric-publisher-class-names", "", CLASS),
    row(
        "v2.aws-credentials-provider-provider-class-name",
        "the plugin's",
        CREDENTIALS,
    ),
    row("v2.aws-credentials-provider-class-name", "", CREDENTIALS),
];

/// Below `dynamo-db-client.v2.async`.
pub(super) const V2_ASYNC: &[Row] = &[
    row(
        "v2.async.max-concurrency",
        "50",
        Becomes(CONNECTIONS, Kind::Count),
    ),
    row("v2.async.max-pending-connection-acquires", "10000", SOCKETS),
    row(
        "v2.async.read-timeout",
        "30s",
        Becomes(SOCKET, Kind::Millis),
    ),
    row("v2.async.write-timeout", "30s", SOCKETS),
    row(
        "v2.async.connection-timeout",
        "2000ms",
        Becomes(TIMEOUT, Kind::Millis),
    ),
    row("v2.async.connection-acquisition-timeout", "10s", SOCKETS),
    row("v2.async.connection-time-to-live", "0s", SOCKETS),
    row(
        "v2.async.max-idle-connection-timeout",
        "60s",
        Becomes(MAX_IDLE, Kind::Millis),
    ),
    row("v2.async.use-connection-reaper", "true", IDLE),
    row("v2.async.threads-of-event-loop-group", "", THREADS),
    row("v2.async.use-http2", "false", SOCKETS),
    row("v2.async.http2-max-streams", "4294967295", SOCKETS),
    row("v2.async.http2-initial-window-size", "1048576", SOCKETS),
    row("v2.async.http2-health-check-ping-period", "", SOCKETS),
];

/// Below `dynamo-db-client.v2.sync`.
pub(super) const V2_SYNC: &[Row] = &[
    row("v2.sync.dispatcher-name", "", THREADS),
    row(
        "v2.sync.socket-timeout",
        "50000ms",
        Becomes(SOCKET, Kind::Millis),
    ),
    row(
        "v2.sync.connection-timeout",
        "2000ms",
        Becomes(TIMEOUT, Kind::Millis),
    ),
    row("v2.sync.connection-acquisition-timeout", "10s", SOCKETS),
    row(
        "v2.sync.max-connections",
        "50",
        Becomes(CONNECTIONS, Kind::Count),
    ),
    row("v2.sync.local-address", "", SOCKETS),
    row("v2.sync.expect-continue-enabled", "", SOCKETS),
    row("v2.sync.connection-time-to-live", "0s", SOCKETS),
    row(
        "v2.sync.max-idle-connection-timeout",
        "60s",
        Becomes(MAX_IDLE, Kind::Millis),
    ),
    row("v2.sync.use-tcp-keep-alive", "false", SOCKETS),
    row("v2.sync.use-connection-reaper", "true", IDLE),
];

/// Below `dynamo-db-client.v1`.
pub(super) const V1: &[Row] = &[
    row("v1.dispatcher-name", "", THREADS),
    row(
        "v1.client-configuration.connection-timeout",
        "2000ms",
        Becomes(TIMEOUT, Kind::Millis),
    ),
    row(
        "v1.client-configuration.max-connections",
        "50",
        Becomes(CONNECTIONS, Kind::Count),
    ),
    row(
        "v1.client-configuration.max-error-retry",
        "",
        Becomes("aws-client-config.max-error-retry", Kind::Count),
    ),
    row("v1.client-configuration.retry-mode", "", SOCKETS),
    row(
        "v1.client-configuration.retry-policy-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v1.client-configuration.use-throttle-retries",
        "true",
        SOCKETS,
    ),
    row("v1.client-configuration.local-address", "", SOCKETS),
    row(
        "v1.client-configuration.protocol",
        "",
        Chooses("the scheme of an `endpoint` without one"),
    ),
    row(
        "v1.client-configuration.socket-timeout",
        "50000ms",
        Becomes(SOCKET, Kind::Millis),
    ),
    row(
        "v1.client-configuration.request-timeout",
        "60000ms",
        Becomes(REQUEST, Kind::Millis),
    ),
    row(
        "v1.client-configuration.client-execution-timeout",
        "0s",
        Becomes(OPERATION, Kind::Millis),
    ),
    row(
        "v1.client-configuration.user-agent-prefix",
        "",
        Becomes("aws-client-config.user-agent", Kind::Text),
    ),
    row("v1.client-configuration.user-agent-suffix", "", SOCKETS),
    row("v1.client-configuration.use-reaper", "true", IDLE),
    row("v1.client-configuration.use-gzip", "false", SOCKETS),
    row(
        "v1.client-configuration.socket-send-buffer-size-hint",
        "",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.socket-receive-buffer-size-hint",
        "",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.signer-override",
        "",
        NotApplicable("requests are always signed with version 4"),
    ),
    row(
        "v1.client-configuration.response-metadata-cache-size",
        "50",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.dns-resolver-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.client-configuration.dns-resolver-class-name", "", CLASS),
    row(
        "v1.client-configuration.use-secure-random",
        "false",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.secure-random-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row(
        "v1.client-configuration.use-expect-continue",
        "true",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.cache-response-metadata",
        "true",
        SOCKETS,
    ),
    row("v1.client-configuration.connection-ttl", "", SOCKETS),
    row(
        "v1.client-configuration.connection-max-idle",
        "60000ms",
        Becomes(MAX_IDLE, Kind::Millis),
    ),
    row(
        "v1.client-configuration.validate-after-inactivity",
        "5000ms",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.use-tcp-keep-alive",
        "false",
        SOCKETS,
    ),
    row("v1.client-configuration.headers", "", SOCKETS),
    row(
        "v1.client-configuration.max-consecutive-retries-before-throttling",
        "100",
        SOCKETS,
    ),
    row(
        "v1.client-configuration.disable-host-prefix-injection",
        "",
        SOCKETS,
    ),
    row("v1.client-configuration.proxy-protocol", "", SOCKETS),
    row(
        "v1.client-configuration.proxy-host",
        "",
        Becomes("aws-client-config.proxy-host", Kind::Text),
    ),
    row(
        "v1.client-configuration.proxy-port",
        "",
        Becomes("aws-client-config.proxy-port", Kind::Count),
    ),
    row(
        "v1.client-configuration.proxy-username",
        "",
        Becomes("aws-client-config.proxy-username", Kind::Text),
    ),
    row(
        "v1.client-configuration.proxy-password",
        "",
        NotApplicable("a secret is never a setting; put it into ANNALS_PROXY_PASSWORD"),
    ),
    row("v1.client-configuration.proxy-domain", "", NTLM),
    row("v1.client-configuration.proxy-workstation", "", NTLM),
    row("v1.client-configuration.disable-socket-proxy", "", SOCKETS),
    row("v1.client-configuration.non-proxy-hosts", "", SOCKETS),
    row(
        "v1.client-configuration.proxy-authentication-methods",
        "",
        SOCKETS,
    ),
    row(
        "v1.request-metric-collector-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.request-metric-collector-class-name", "", CLASS),
    row(
        "v1.monitoring-listener-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.monitoring-listener-class-name", "", CLASS),
    row(
        "v1.request-handlers-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.request-handlers-class-name", "", CLASS),
    row("v1.request-handler-class-names", "", CLASS),
    row(
        "v1.csm-configuration-provider-provider-class-name",
        "the plugin's",
        CLASS,
    ),
    row("v1.csm-configuration-provider-class-name", "", CLASS),
    row(
        "v1.aws-credentials-provider-provider-class-name",
        "the plugin's",
        CREDENTIALS,
    ),
    row("v1.aws-credentials-provider-class-name", "", CREDENTIALS),
];

/// All keys of `dynamo-db-client`.
pub(super) const CLIENTS: [&[Row]; 5] = [CLIENT, V2, V2_ASYNC, V2_SYNC, V1];
