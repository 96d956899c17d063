//! `annals projection`: how projections are doing, and what operators do with them. They run in the
//! programs that start them; these commands read and change their records in the store.

mod control;
mod dead_letters;
mod list;
mod status;

use std::process::ExitCode;

use annals::Result;
use annals::projection::Projections;
use annals::store::Store;
use clap::Subcommand;

use super::{Context, Purpose};
use crate::output::ABSENT;

/// The commands of projections.
#[derive(Debug, Subcommand)]
pub(crate) enum Projection {
    /// List every projection, with its state, its lag and its dead letters
    ///
    /// running: programs run it. paused: an operator paused it. stopped: a share cannot go on, see
    /// `annals projection status`. idle: no program runs it. Build, revision and numbers are those of
    /// the live build. Reads the feed from the position of each share.
    List(list::List),
    /// Print the builds and shares of a projection, with positions, lag, and why a share is stopped
    ///
    /// Exits with 1 if there is no such projection. Reads the feed from the position of each share.
    Status(status::Status),
    /// Pause a projection everywhere, until it is resumed
    ///
    /// The programs that run it save their positions and release their shares, within a few seconds.
    /// Exits with 1 if there is no such projection.
    Pause(control::Pause),
    /// Resume a projection that is paused
    ///
    /// Exits with 1 if there is no such projection.
    Resume(control::Resume),
    /// Build a view again from the start of the feed, beside the live build
    ///
    /// The programs that run the projection make it; readers see the live build until `annals
    /// projection switch`. Prints the number of the new build. Exits with 1 if there is no such
    /// projection, and with 2 if it is not a view or is being rebuilt already.
    Rebuild(control::Rebuild),
    /// Make the new build live, in one step, once it is less than a second late
    ///
    /// Prints its number. Exits with 1 if there is no such projection, and with 2 if no build is being
    /// made, a share of it is stopped, or it is late.
    Switch(control::Switch),
    /// List the events that could not be handled, or retry or discard them
    ///
    /// A dead letter is an event that could not be handled, or a later one of the same id. Exits with 1
    /// if there is no such projection, or no dead letter of the id.
    DeadLetters(dead_letters::DeadLetters),
}

impl Projection {
    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::List(command) => command.run(context).await,
            Self::Status(command) => command.run(context).await,
            Self::Pause(command) => command.run(context).await,
            Self::Resume(command) => command.run(context).await,
            Self::Rebuild(command) => command.run(context).await,
            Self::Switch(command) => command.run(context).await,
            Self::DeadLetters(command) => command.run(context).await,
        }
    }
}

impl Context {
    /// The projections, and the store to ask for the cost.
    async fn projections(&self, purpose: Purpose) -> Result<(Projections, Store)> {
        let (journal, store) = self.journal(purpose).await?;
        Ok((Projections::of(&journal), store))
    }

    /// Reports that there is no projection of this name.
    fn no_projection(&self, name: &str, store: &Store) -> Result<ExitCode> {
        eprintln!(
            "annals: there is no such projection; see `annals projection list`. projection=`{name}`"
        );
        self.print_cost(store)?;
        Ok(ExitCode::from(ABSENT))
    }
}

/// A time span for people: the two largest units, or tenths of a second.
fn span_text(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    match seconds {
        0 if ms == 0 => "0 s".to_owned(),
        0..10 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min {} s", seconds % 60),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (ms, want) in [
            (0, "0 s"),
            (40, "0.0 s"),
            (940, "0.9 s"),
            (9_999, "9.9 s"),
            (10_000, "10 s"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h 0 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span_text(ms), want);
        }
    }
}
