//! `annals group`: consumer groups, which share the events of the feed among members.

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use annals::feed::Filter;
use annals::group::{
    DeadLetters, Delivery, DeliveryId, Group, GroupSettings, GroupStatus, Groups, Settled, Start,
    Take,
};
use annals::store::Store;
use annals::{PersistenceId, Result};
use clap::Subcommand;

use super::feed::parse_slices;
use super::{Context, Purpose};
use crate::args::whole_number;
use crate::columns::Rows;
use crate::output::{ABSENT, counted, print_note};
use crate::wire::Count;
use crate::{payload, wire};

/// The exit code where a delivery belongs to another member meanwhile.
const CONFLICT: u8 = 3;

/// Consumer groups: several members share the events of the feed, each commit for one of them.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List the groups, and how far they have come
    List,
    /// Create a group, or change its settings. The filter and the start of a group cannot be changed
    Create(Box<Create>),
    /// Print the settings of a group and how far it has come. Exits with 1 if there is none
    Status {
        /// The name of the group
        group: String,
    },
    /// Take the next commits. At most one commit of an id is in flight
    Next {
        /// The name of the group
        group: String,
        /// At most so many commits, up to 1000
        #[arg(long, value_name = "N", default_value_t = 10)]
        max: usize,
        /// Wait so many milliseconds if there is none. With --server: nobody else can append to an
        /// embedded store that this command has open
        #[arg(long, value_name = "MS", default_value_t = 0)]
        wait: u64,
        /// The name of this member, for the reasons of dead letters
        #[arg(long, value_name = "NAME", default_value = "")]
        member: String,
    },
    /// Acknowledge deliveries: their commits are handled. Exits with 3 if one was handed out again
    Ack {
        /// The name of the group
        group: String,
        /// The deliveries, as `next` prints them
        #[arg(required = true)]
        delivery: Vec<DeliveryId>,
    },
    /// Refuse deliveries: their commits are handed out again, or become dead letters. Exits with 3 if one
    /// was handed out again
    Nack {
        /// The name of the group
        group: String,
        /// The deliveries, as `next` prints them
        #[arg(required = true)]
        delivery: Vec<DeliveryId>,
        /// Why, for the dead letter
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// List the ids that have dead letters, with the reason
    DeadLetters {
        /// The name of the group
        group: String,
    },
    /// Hand dead letters out again, each id's in order
    Retry {
        /// The name of the group
        group: String,
        /// Only those of this id; without it, all
        persistence_id: Option<PersistenceId>,
    },
    /// Forget dead letters: they are never handed out again
    Discard {
        /// The name of the group
        group: String,
        /// Only those of this id; without it, all
        persistence_id: Option<PersistenceId>,
    },
    /// Delete a group, with its position and its dead letters. Exits with 1 if there is none
    Delete {
        /// The name of the group
        group: String,
    },
}

/// Create a group, or change its settings. What is left out keeps its value; a new group gets the
/// default.
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name of the group: letters, digits, -, _ and .
    group: String,
    /// Only events of this entity type, what is before the | of the id; repeatable
    #[arg(long, value_name = "C")]
    category: Vec<String>,
    /// Only ids that begin so
    #[arg(long, value_name = "P")]
    prefix: Option<String>,
    /// Only events with this tag; repeatable
    #[arg(long, value_name = "T")]
    tag: Vec<String>,
    /// Only ids of these slices, of 0 to 1023: N or N-M
    #[arg(long, value_name = "N-M", value_parser = parse_slices)]
    slices: Option<RangeInclusive<u16>>,
    /// Where to start: start, the start of the feed; now, its end; or a position of the feed [default:
    /// start]
    #[arg(long, value_name = "START")]
    start: Option<Start>,
    /// The most commits handed out and not acknowledged, up to 1000 [default: 100]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole_number(text, u32::MAX))]
    in_flight: Option<u32>,
    /// After so many milliseconds, what is not acknowledged is handed out again [default: 30000]
    #[arg(long, value_name = "MS", value_parser = |text: &str| whole_number(text, u64::MAX))]
    ack_ms: Option<u64>,
    /// How often a commit is handed out again before it becomes a dead letter, up to 1000 [default: 5]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole_number(text, u32::MAX))]
    retries: Option<u32>,
}

impl Create {
    fn settings(&self) -> GroupSettings {
        let has_filter = !self.category.is_empty()
            || !self.tag.is_empty()
            || self.prefix.is_some()
            || self.slices.is_some();
        let mut filter = Filter::new().prefix(self.prefix.clone().unwrap_or_default());
        filter.categories.clone_from(&self.category);
        filter.tags.clone_from(&self.tag);
        filter.slices.clone_from(&self.slices);
        let mut settings = GroupSettings::new();
        settings.filter = has_filter.then_some(filter);
        settings.start.clone_from(&self.start);
        settings.in_flight = self.in_flight;
        settings.ack_within = self.ack_ms.map(Duration::from_millis);
        settings.retries = self.retries;
        settings
    }
}

impl GroupCommand {
    /// The group that it is about; `None`: all.
    fn name(&self) -> Option<&str> {
        match self {
            Self::List => None,
            Self::Create(create) => Some(&create.group),
            Self::Status { group }
            | Self::Next { group, .. }
            | Self::Ack { group, .. }
            | Self::Nack { group, .. }
            | Self::DeadLetters { group }
            | Self::Retry { group, .. }
            | Self::Discard { group, .. }
            | Self::Delete { group } => Some(group),
        }
    }

    fn purpose(&self) -> Purpose {
        match self {
            Self::List | Self::Status { .. } | Self::DeadLetters { .. } => Purpose::Read,
            Self::Create(_) => Purpose::Write,
            _ => Purpose::Change,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        if matches!(self, Self::Next { wait: 1.., .. }) && context.is_alone() {
            eprintln!(
                "annals: one process at a time writes to an embedded store, so nobody can append while this waits; use --server with a running `annals serve`"
            );
        }
        let (journal, store) = context.journal(self.purpose()).await?;
        let groups = Groups::of(&journal)?;
        let Some(name) = self.name() else {
            let listed = groups.list().await?;
            print_groups(context, &listed)?;
            context.print_cost(&store)?;
            return Ok(ExitCode::SUCCESS);
        };
        let group = groups.group(name)?;
        let code = self.run_on(context, &group).await?;
        finish(context, (&group, &store), code)
    }

    /// The exit code; `None` if there is no such group.
    async fn run_on(self, context: &Context, group: &Group) -> Result<Option<u8>> {
        match self {
            Self::List => Ok(None),
            Self::Create(create) => {
                group.put(&create.settings()).await?;
                status(context, group).await
            }
            Self::Status { .. } => status(context, group).await,
            Self::Next {
                max, wait, member, ..
            } => {
                let wait = Duration::from_millis(wait);
                let take = Take::new().max(max).wait(wait).member(member);
                let deliveries = group.next(&take).await?;
                deliveries
                    .map(|deliveries| print_deliveries(context, &deliveries))
                    .transpose()
            }
            Self::Ack { delivery, .. } => {
                let settled = group.ack(&delivery).await?;
                print_outcomes(context, &delivery, settled)
            }
            Self::Nack {
                delivery, reason, ..
            } => {
                let settled = group.nack(&delivery, &reason).await?;
                print_outcomes(context, &delivery, settled)
            }
            Self::DeadLetters { .. } => {
                let dead = group.dead_letters().await?;
                dead.map(|dead| print_dead(context, &dead)).transpose()
            }
            Self::Retry { persistence_id, .. } => {
                let Some(retried) = group.retry(persistence_id.as_ref()).await? else {
                    return Ok(None);
                };
                let text = format!("{} handed out again", counted(retried, "dead letter"));
                let (group, retried) = (group.name(), Count(retried));
                context
                    .output
                    .line(&wire::Retried { group, retried }, &text)?;
                Ok(Some(0))
            }
            Self::Discard { persistence_id, .. } => {
                let Some(discarded) = group.discard(persistence_id.as_ref()).await? else {
                    return Ok(None);
                };
                let text = format!("{} discarded", counted(discarded, "dead letter"));
                let (group, discarded) = (group.name(), Count(discarded));
                context
                    .output
                    .line(&wire::Discarded { group, discarded }, &text)?;
                Ok(Some(0))
            }
            Self::Delete { .. } => {
                if !group.delete().await? {
                    return Ok(None);
                }
                let text = format!("{} is deleted", group.name());
                let deleted = wire::DeletedGroup::new(group.name());
                context.output.line(&deleted, &text)?;
                Ok(Some(0))
            }
        }
    }
}

fn finish(
    context: &Context,
    (group, store): (&Group, &Store),
    code: Option<u8>,
) -> Result<ExitCode> {
    if code.is_none() {
        let name = group.name();
        print_note(&format!("annals: there is no such group. group=`{name}`"));
    }
    context.print_cost(store)?;
    Ok(ExitCode::from(code.unwrap_or(ABSENT)))
}

async fn status(context: &Context, group: &Group) -> Result<Option<u8>> {
    let Some(status) = group.status().await? else {
        return Ok(None);
    };
    print_groups(context, &[status])?;
    Ok(Some(0))
}

fn print_groups(context: &Context, groups: &[GroupStatus]) -> Result<()> {
    let names = [
        "LAG",
        "AGE",
        "IN FLIGHT",
        "DEAD",
        "MISSED",
        "FLOOR",
        "GROUP",
        "FILTER",
    ];
    let mut rows = Rows::new(context.output, names);
    let json = |group: &GroupStatus| wire::line(&wire::Group::new(group));
    let row = |group: &GroupStatus| {
        let more = if group.lag.has_more { "+" } else { "" };
        let most = group.in_flight_max;
        [
            format!("{}{more}", group.lag.events),
            format!("{} ms", group.lag.ms),
            format!("{} of {most}", group.in_flight),
            group.dead_letters.to_string(),
            group.missed.to_string(),
            group.floor.to_string(),
            group.name.clone(),
            filter(&group.filter),
        ]
    };
    rows.print(groups, json, row)
}

/// A filter as it is typed.
fn filter(filter: &Filter) -> String {
    let mut parts = Vec::new();
    let categories = filter.categories.iter();
    parts.extend(categories.map(|category| format!("--category {category}")));
    if !filter.prefix.is_empty() {
        parts.push(format!("--prefix {}", filter.prefix));
    }
    parts.extend(filter.tags.iter().map(|tag| format!("--tag {tag}")));
    if let Some(slices) = &filter.slices {
        parts.push(format!("--slices {}-{}", slices.start(), slices.end()));
    }
    parts.join(" ")
}

fn print_deliveries(context: &Context, deliveries: &[Delivery]) -> Result<u8> {
    if context.output.is_json() {
        for delivery in deliveries {
            let line = wire::line(&wire::Delivery::new(delivery));
            crate::output::print_line(&line)?;
        }
        return Ok(0);
    }
    let names = ["DELIVERY", "PERSISTENCE ID", "NUMBER", "TYPE", "PAYLOAD"];
    let events = deliveries.iter().flat_map(|delivery| {
        let events = delivery.events.iter();
        events.map(|event| (delivery.id, event))
    });
    let events: Vec<_> = events.collect();
    let mut rows = Rows::new(context.output, names);
    let row = |(id, event): &(DeliveryId, &annals::Event)| {
        [
            id.to_string(),
            event.persistence_id.to_string(),
            event.sequence_number.to_string(),
            event.data.manifest.clone(),
            payload::to_text(&event.data.codec, &event.data.payload),
        ]
    };
    rows.print(&events, |_| String::new(), row)?;
    Ok(0)
}

fn print_outcomes(
    context: &Context,
    deliveries: &[DeliveryId],
    settled: Option<Vec<Settled>>,
) -> Result<Option<u8>> {
    let Some(settled) = settled else {
        return Ok(None);
    };
    let outcomes = deliveries.iter().zip(&settled);
    let outcomes: Vec<_> = outcomes.collect();
    let mut rows = Rows::new(context.output, ["OUTCOME", "DELIVERY"]);
    let json = |(id, settled): &(&DeliveryId, &Settled)| {
        wire::line(&wire::Outcome {
            delivery: id.to_string(),
            outcome: settled.name(),
        })
    };
    let row = |(id, settled): &(&DeliveryId, &Settled)| [settled.name().to_owned(), id.to_string()];
    rows.print(&outcomes, json, row)?;
    let refused = settled.iter().filter(|settled| settled.is_refused());
    match refused.count() {
        0 => Ok(Some(0)),
        refused => {
            let refused = counted(refused, "delivery").replace("deliverys", "deliveries");
            print_note(&format!(
                "annals: {refused} too late or unknown: handed out again, or a dead letter"
            ));
            Ok(Some(CONFLICT))
        }
    }
}

fn print_dead(context: &Context, dead: &[DeadLetters]) -> Result<u8> {
    let names = ["COMMITS", "NUMBER", "AFTER", "PERSISTENCE ID", "REASON"];
    let mut rows = Rows::new(context.output, names);
    let json = |dead: &DeadLetters| wire::line(&wire::GroupDeadLetters::new(dead));
    let row = |dead: &DeadLetters| {
        let retried = if dead.is_retried { " (retried)" } else { "" };
        [
            dead.commits.to_string(),
            dead.first.to_string(),
            dead.after.to_string(),
            dead.persistence_id.to_string(),
            format!("{}{retried}", dead.reason),
        ]
    };
    rows.print(dead, json, row)?;
    Ok(0)
}
