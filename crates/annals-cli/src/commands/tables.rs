//! `annals tables`: create, check or drop the tables of the layout, or print a template of them.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use crate::settings::StoreKind;
use annals::items::{Billing, Items, TableSpec};
use annals::layout::Hint;
use annals::log::LogTables;
use annals::store::Store;
use annals::{Error, ErrorKind, Result};
use annals_aws::kinesis::StreamName;
use annals_aws::template::{LogParts, Template};
use annals_aws::{DynamoDb, TableCare};
use clap::{Subcommand, ValueEnum};

use super::{Context, Purpose};
use crate::output::{ABSENT, print_line};
use crate::wire;

/// What to do with the tables.
#[derive(Debug, Subcommand)]
pub(crate) enum Tables {
    /// Create the tables that are not there yet
    Create {
        /// Reserve so many read units a second instead of paying by request
        #[arg(long, value_name = "N", requires = "write_units")]
        read_units: Option<u32>,
        /// Reserve so many write units a second instead of paying by request
        #[arg(long, value_name = "N", requires = "read_units")]
        write_units: Option<u32>,
        /// The tables of the time-ordered log as well
        #[arg(long)]
        log: bool,
    },
    /// Check that the tables are there and have the right keys and indexes, and what the settings
    /// would get wrong with them
    Check {
        /// The tables of the time-ordered log as well
        #[arg(long)]
        log: bool,
    },
    /// Drop the tables with everything in them
    Drop {
        /// Do not ask; needed where there is no terminal to ask at
        #[arg(long, short)]
        yes: bool,
        /// The tables of the time-ordered log as well
        #[arg(long)]
        log: bool,
    },
    /// Print a CloudFormation template: tables, streams, functions and their roles
    Template {
        /// How it is written [default: yaml, and json with --json]
        #[arg(long, value_name = "FORMAT")]
        format: Option<Format>,
        /// The tables of the layout alone: no log, no streams, no functions
        #[arg(long)]
        without_log: bool,
        /// The stream that is pumped into the log
        #[arg(long, value_name = "NAME", default_value = "annals-events")]
        stream: StreamName,
        /// The stream that the log is played back to
        #[arg(long, value_name = "NAME", default_value = "annals-playback")]
        playback_stream: StreamName,
        /// Reserve so many read units a second instead of paying by request
        #[arg(long, value_name = "N", requires = "write_units")]
        read_units: Option<u32>,
        /// Reserve so many write units a second instead of paying by request
        #[arg(long, value_name = "N", requires = "read_units")]
        write_units: Option<u32>,
    },
}

/// How a template is written.
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
                    // The index of a table that is new is complete, and is marked so.
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
                let log = LogParts {
                    settings: context.settings.log.clone(),
                    stream,
                    playback_stream,
                };
                let log = Some(&log).filter(|_| !without_log);
                let billing = billing(read_units, write_units)?;
                let template = Template::new(&context.settings.tables()?, billing, log)?;
                print_template(context, &template, format)
            }
            Self::Drop { yes, .. } => {
                if yes || is_confirmed(&specs)? {
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
            "reserved capacity is at least one unit; leave both options out to pay by request",
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
    for spec in specs {
        print_status(context, spec, made(&**store, spec, billing).await?)?;
    }
    Ok(())
}

/// Makes the table, unless it is there already; which of them.
pub(crate) async fn made(
    store: &dyn Items,
    spec: &TableSpec,
    billing: Billing,
) -> Result<&'static str> {
    match store.create_table(spec, billing).await {
        Ok(()) => Ok("created"),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            agree(spec, store.describe_table(spec.name()).await?)?;
            Ok("exists")
        }
        Err(error) => Err(error),
    }
}

/// How the table is, and how it differs from what the layout wants.
pub(crate) fn compared(spec: &TableSpec, found: Option<&TableSpec>) -> (&'static str, Vec<String>) {
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

fn agree(spec: &TableSpec, found: Option<TableSpec>) -> Result<()> {
    let differences = found
        .map(|found| spec.differences(&found))
        .unwrap_or_default();
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a table of that name has another schema: {}; choose another name or layout. table=`{}`",
        differences.join("; "),
        spec.name()
    )))
}

fn print_status(context: &Context, spec: &TableSpec, status: &'static str) -> Result<()> {
    let object = wire::Table::new(spec.name().as_str(), status, Vec::new());
    context
        .output
        .line(&object, &format!("{:<40} {status}", spec.name().as_str()))
}

fn print_template(
    context: &Context,
    template: &Template,
    format: Option<Format>,
) -> Result<ExitCode> {
    let is_json = match format {
        None => context.output.is_json_asked(),
        Some(format) => format == Format::Json,
    };
    let text = match is_json {
        true => format!("{:#}", template.as_json()),
        false => template.to_yaml(),
    };
    print_line(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

async fn check(context: &Context, specs: &[&TableSpec], log: bool) -> Result<ExitCode> {
    let store = context.existing_store().await?;
    let cares = cares(context, specs).await?;
    let mut tables = Vec::new();
    for spec in specs {
        tables.extend(store.describe_table(spec.name()).await?);
    }
    let mut hints = context.settings.layout().hints(&store, &tables).await?;
    if log {
        hints.extend(annals::log::hints(&*store, &context.settings.log, &tables).await?);
    }
    let (mut missing, mut differing, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for (spec, care) in specs.iter().zip(&cares) {
        let name = spec.name();
        let (status, differences) = compared(spec, tables.iter().find(|it| it.name() == name));
        let hints: Vec<&Hint> = hints.iter().filter(|hint| hint.table == *name).collect();
        let object = wire::Table::new(name.as_str(), status, differences.clone());
        let object = object.checked(&hints, care.as_ref());
        let text = checked_text(
            name.as_str(),
            (status, &differences),
            (&hints, care.as_ref()),
        );
        context.output.line(&object, &text)?;
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
        return Err(Error::invalid(format!(
            "tables have another schema; choose other names or another layout. tables=`{}`",
            differing.join(", ")
        )));
    }
    if !wrong.is_empty() {
        return Err(Error::invalid(format!(
            "the settings would get something wrong; set what the hints say. tables=`{}`",
            wrong.join(", ")
        )));
    }
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "annals: tables are missing; create them with `annals tables create`. tables=`{}`",
        missing.join(", ")
    );
    Ok(ExitCode::from(ABSENT))
}

/// How each table is paid for and cared for, where that can be asked.
async fn cares(context: &Context, specs: &[&TableSpec]) -> Result<Vec<Option<TableCare>>> {
    let mut cares = Vec::new();
    let items = match context.settings.store {
        StoreKind::Embedded => None,
        StoreKind::DynamoDb => Some(DynamoDb::open(&context.settings.aws()).await?),
    };
    for spec in specs {
        cares.push(match &items {
            None => None,
            Some(items) => items.table_care(spec.name()).await?,
        });
    }
    Ok(cares)
}

fn checked_text(
    name: &str,
    (status, differences): (&str, &[String]),
    (hints, care): (&[&Hint], Option<&TableCare>),
) -> String {
    let mut text = format!("{name:<40} {status}");
    if !differences.is_empty() {
        text.push_str(&format!(": {}", differences.join("; ")));
    }
    if let Some(care) = care {
        let billing = match care.billing {
            Billing::OnDemand => "on demand".to_owned(),
            Billing::Provisioned {
                read_units,
                write_units,
            } => format!("{read_units} read and {write_units} write units reserved"),
        };
        let recovery = match care.is_recoverable {
            None => "not known",
            Some(true) => "on",
            Some(false) => "off",
        };
        let protection = if care.is_protected { "on" } else { "off" };
        text.push_str(&format!(
            "  {billing}, point-in-time recovery {recovery}, deletion protection {protection}"
        ));
        if let Some(attribute) = &care.expires_by {
            text.push_str(&format!(", items expire by `{attribute}`"));
        }
    }
    for hint in hints {
        let kind = if hint.is_wrong { "wrong" } else { "hint" };
        text.push_str(&format!("\n  {kind}: {}", hint.detail));
    }
    text
}

/// Asks the person at the terminal; without one, nobody can have meant it.
fn is_confirmed(specs: &[&TableSpec]) -> Result<bool> {
    let names: Vec<_> = specs.iter().map(|spec| spec.name().as_str()).collect();
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::invalid(format!(
            "say --yes to drop tables with everything in them without being asked. tables=`{}`",
            names.join(", ")
        )));
    }
    eprint!("drop {} with everything in them? [y/N] ", names.join(", "));
    let unread = |cause| Error::invalid("cannot ask; say --yes").because(cause);
    io::stderr().flush().map_err(unread)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(unread)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn drop_all(context: &Context, specs: &[&TableSpec]) -> Result<ExitCode> {
    let store = context.existing_store().await?;
    for spec in specs {
        let was_there = store.drop_table(spec.name()).await?;
        print_status(context, spec, if was_there { "dropped" } else { "missing" })?;
    }
    context.print_cost(&store)?;
    Ok(ExitCode::SUCCESS)
}
