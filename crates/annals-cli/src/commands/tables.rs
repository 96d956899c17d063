//! `annals tables`: create, check or drop the tables of the layout, or print a CloudFormation template.

use std::process::ExitCode;

use annals::items::{Billing, Items, TableSpec};
use annals::layout::Hint;
use annals::log::LogTables;
use annals::store::Store;
use annals::{Error, ErrorKind, Result};
use annals_aws::kinesis::StreamName;
use annals_aws::template::{LogResources, Template};
use annals_aws::{DynamoDb, TableConfig};
use clap::{Subcommand, ValueEnum};

use super::{Context, Purpose};
use crate::columns::Rows;
use crate::open::Access;
use crate::output::{self, ABSENT, print_line};
use crate::settings::StoreKind;
use crate::wire;

/// Create, check or drop tables.
#[derive(Debug, Subcommand)]
pub(crate) enum Tables {
    /// Create the missing tables
    Create {
        /// Provisioned read units per second, instead of on-demand billing
        #[arg(long, value_name = "N", requires = "write_units")]
        read_units: Option<u32>,
        /// Provisioned write units per second, instead of on-demand billing
        #[arg(long, value_name = "N", requires = "read_units")]
        write_units: Option<u32>,
        /// Include the tables of the time-ordered log
        #[arg(long)]
        log: bool,
    },
    /// Check that the tables exist with the right keys and indexes, and that the settings fit their
    /// contents
    Check {
        /// Include the tables of the time-ordered log
        #[arg(long)]
        log: bool,
    },
    /// Drop the tables with all their data
    Drop {
        /// Do not ask; required without a terminal
        #[arg(long, short)]
        yes: bool,
        /// Include the tables of the time-ordered log
        #[arg(long)]
        log: bool,
    },
    /// Print a CloudFormation template of tables, streams, functions and their roles
    Template {
        /// The format of the template
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Json)]
        format: Format,
        /// Only the tables of the layout: no log, streams or functions
        #[arg(long)]
        without_log: bool,
        /// The stream to pump into the log
        #[arg(long, value_name = "NAME", default_value = "annals-events")]
        stream: StreamName,
        /// The stream to play the log back to
        #[arg(long, value_name = "NAME", default_value = "annals-playback")]
        playback_stream: StreamName,
        /// Provisioned read units per second, instead of on-demand billing
        #[arg(long, value_name = "N", requires = "write_units")]
        read_units: Option<u32>,
        /// Provisioned write units per second, instead of on-demand billing
        #[arg(long, value_name = "N", requires = "read_units")]
        write_units: Option<u32>,
    },
}

/// The format of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

impl Tables {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        let tables = context.settings.tables()?;
        let of_log = LogTables::new(&context.settings.log)?;
        let log = match &self {
            Self::Create { log, .. } | Self::Check { log } | Self::Drop { log, .. } => *log,
            Self::Template { .. } => false,
        };
        let of_log = of_log.all().filter(|_| log);
        let specs: Vec<&TableSpec> = tables.all().chain(of_log).collect();
        match self {
            Self::Create {
                read_units,
                write_units,
                log,
            } => {
                let billing = billing(read_units, write_units)?;
                let store = context.store().await?;
                create(context, &store, &specs, billing).await?;
                if log {
                    // The index of a new table is complete, and marked as complete.
                    let log = context.log_on(&store, Purpose::Write).await?;
                    log.complete_index().await?;
                }
                context.print_cost(&store)?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Check { log } => check(context, &specs, log).await,
            Self::Template {
                format,
                without_log,
                stream,
                playback_stream,
                read_units,
                write_units,
            } => {
                let settings = context.settings.log.clone();
                let log = LogResources::new(settings, stream, playback_stream);
                let log = Some(&log).filter(|_| !without_log);
                let billing = billing(read_units, write_units)?;
                let template = Template::new(&context.settings.tables()?, billing, log)?;
                print_template(&template, format)
            }
            Self::Drop { yes, .. } => {
                context.refuse_no_store()?;
                if yes || is_confirmed(context, &specs)? {
                    return drop_all(context, &specs).await;
                }
                eprintln!("nothing dropped");
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn billing(read_units: Option<u32>, write_units: Option<u32>) -> Result<Billing> {
    match read_units.zip(write_units) {
        None => Ok(Billing::OnDemand),
        Some((0, _) | (_, 0)) => Err(Error::invalid(
            "provisioned capacity is at least one unit; leave both options out for on-demand billing",
        )),
        Some((read_units, write_units)) => Ok(Billing::Provisioned {
            read_units,
            write_units,
        }),
    }
}

async fn create(
    context: &Context,
    store: &Store,
    specs: &[&TableSpec],
    billing: Billing,
) -> Result<()> {
    let mut rows = Statuses::new(context, specs);
    for spec in specs {
        rows.print(spec, create_missing(&**store, spec, billing).await?)?;
    }
    Ok(())
}

/// Creates the table if it is missing. Returns its status.
pub(crate) async fn create_missing(
    store: &dyn Items,
    spec: &TableSpec,
    billing: Billing,
) -> Result<&'static str> {
    match store.create_table(spec, billing).await {
        Ok(()) => Ok("created"),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            check_schema(spec, store.describe_table(spec.name()).await?)?;
            Ok("exists")
        }
        Err(error) => Err(error),
    }
}

/// The status of a table, and its differences from the layout.
pub(crate) fn compare(spec: &TableSpec, found: Option<&TableSpec>) -> (&'static str, Vec<String>) {
    let Some(found) = found else {
        return ("missing", Vec::new());
    };
    let differences = spec.differences(found);
    let status = if differences.is_empty() {
        "ok"
    } else {
        "differs"
    };
    (status, differences)
}

fn check_schema(spec: &TableSpec, found: Option<TableSpec>) -> Result<()> {
    let differences = found
        .map(|found| spec.differences(&found))
        .unwrap_or_default();
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a table of that name has another schema: {}; choose another name or layout",
        differences.join("; ")
    ))
    .fact("table", spec.name()))
}

/// Prints the status of tables, each as soon as it is known.
struct Statuses(Rows<2>);

impl Statuses {
    /// Columns wide enough for all of these tables.
    fn new(context: &Context, specs: &[&TableSpec]) -> Self {
        let names = specs.iter().map(|spec| spec.name().as_str());
        let mut rows = Rows::new(context.output, ["TABLE", "STATUS"]);
        rows.widen(names.map(|name| [name, ""]));
        Self(rows)
    }

    fn print(&mut self, spec: &TableSpec, status: &'static str) -> Result<()> {
        let name = spec.name().as_str();
        let json = |status: &&'static str| wire::line(&wire::Table::new(name, status, Vec::new()));
        let row = |status: &&'static str| [name.to_owned(), (*status).to_owned()];
        self.0.print(&[status], json, row)
    }
}

fn print_template(template: &Template, format: Format) -> Result<ExitCode> {
    let json = template.as_json();
    let text = match format {
        Format::Json => format!("{json:#}"),
        Format::Yaml => serde_saphyr::to_string(json).map_err(|cause| {
            Error::invalid("the template cannot be written as YAML; use --format json")
                .because(cause)
        })?,
    };
    print_line(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

async fn check(context: &Context, specs: &[&TableSpec], log: bool) -> Result<ExitCode> {
    let store = context.store_or_empty(Access::Read).await?;
    let configs = configs(context, specs).await?;
    let mut tables = Vec::new();
    for spec in specs {
        tables.extend(store.describe_table(spec.name()).await?);
    }
    let mut hints = context.settings.layout().hints(&store, &tables).await?;
    if log {
        hints.extend(annals::log::hints(&store, &context.settings.log, &tables).await?);
    }
    let (mut missing, mut differing, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = Rows::new(context.output, ["TABLE", "STATUS", "DETAILS"]);
    rows.widen(
        specs
            .iter()
            .map(|spec| [spec.name().as_str(), "missing", ""]),
    );
    for (spec, config) in specs.iter().zip(configs) {
        let name = spec.name();
        let (status, differences) = compare(spec, tables.iter().find(|it| it.name() == name));
        let hints: Vec<&Hint> = hints.iter().filter(|hint| hint.table == *name).collect();
        let object = wire::Table::new(name.as_str(), status, differences.clone());
        let object = object.checked(&hints, config.as_ref());
        let details = differences.iter().cloned();
        let details = details.chain(config.as_ref().map(config_text));
        let details = details.collect::<Vec<_>>().join("; ");
        let row = [name.as_str().to_owned(), status.to_owned(), details];
        rows.print(&[row], |_| wire::line(&object), Clone::clone)?;
        if !context.output.is_json() {
            hints
                .iter()
                .try_for_each(|hint| print_line(&hint_text(hint)))?;
        }
        if !differences.is_empty() {
            differing.push(name.as_str());
        } else if status == "missing" {
            missing.push(name.as_str());
        } else if hints.iter().any(|hint| hint.is_wrong) {
            wrong.push(name.as_str());
        }
    }
    context.print_cost(&store)?;
    if !differing.is_empty() {
        return Err(Error::invalid(
            "tables have another schema; choose other names or another layout",
        )
        .fact("tables", differing.join(", ")));
    }
    if !wrong.is_empty() {
        return Err(
            Error::invalid("the settings do not fit the stored data; follow the hints")
                .fact("tables", wrong.join(", ")),
        );
    }
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let option = if log { " --log" } else { "" };
    eprintln!(
        "annals: tables are missing {}; create them with `annals tables create{option}`. tables=`{}`",
        context.location(),
        missing.join(", ")
    );
    Ok(ExitCode::from(ABSENT))
}

/// The configuration of each table on DynamoDB; `None` on other stores and for missing tables.
async fn configs(context: &Context, specs: &[&TableSpec]) -> Result<Vec<Option<TableConfig>>> {
    let mut configs = Vec::new();
    let items = match context.settings.store {
        _ if context.server.is_some() => None,
        StoreKind::Embedded => None,
        StoreKind::DynamoDb => Some(DynamoDb::open(&context.settings.aws()).await?),
    };
    for spec in specs {
        configs.push(match &items {
            None => None,
            Some(items) => items.table_config(spec.name()).await?,
        });
    }
    Ok(configs)
}

fn config_text(config: &TableConfig) -> String {
    let billing = match config.billing {
        Billing::OnDemand => "on demand".to_owned(),
        Billing::Provisioned {
            read_units,
            write_units,
        } => format!("{read_units} read and {write_units} write units provisioned"),
    };
    let recovery = match config.is_recoverable {
        None => "unknown",
        Some(true) => "on",
        Some(false) => "off",
    };
    let protection = if config.is_protected { "on" } else { "off" };
    let expiry = config.expires_by.as_ref();
    let expiry = expiry.map(|attribute| format!(", items expire by `{attribute}`"));
    format!(
        "{billing}, point-in-time recovery {recovery}, deletion protection {protection}{}",
        expiry.unwrap_or_default()
    )
}

fn hint_text(hint: &Hint) -> String {
    let kind = if hint.is_wrong { "wrong" } else { "hint" };
    format!("  {kind}: {}", hint.detail)
}

/// Asks at the terminal; refuses without one.
fn is_confirmed(context: &Context, specs: &[&TableSpec]) -> Result<bool> {
    let names: Vec<_> = specs.iter().map(|spec| spec.name().as_str()).collect();
    if !output::can_ask() {
        return Err(Error::invalid(
            "dropping tables with all their data needs --yes without a terminal",
        )
        .fact("tables", names.join(", ")));
    }
    let (names, location) = (names.join(", "), context.location());
    output::ask(&format!("drop {names} {location} with all their data?"))
}

async fn drop_all(context: &Context, specs: &[&TableSpec]) -> Result<ExitCode> {
    let store = context.existing_store(Access::Write).await?;
    let mut rows = Statuses::new(context, specs);
    for spec in specs {
        let existed = store.drop_table(spec.name()).await?;
        rows.print(spec, if existed { "dropped" } else { "missing" })?;
    }
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}
