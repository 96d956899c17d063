//! What a command knows besides the state.

use crate::PersistenceId;

/// What a command knows besides the state.
///
/// ```
/// # use annals::entity::{Entity, EntityEvent, Stored};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Stored, Default)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// # enum Happened { Deposited { amount: u64 }, Closed }
/// # impl Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = Happened;
/// #     type Error = std::fmt::Error;
/// #     fn apply(&mut self, event: &Happened) {
/// #         if let Happened::Deposited { amount } = event { self.balance += amount; }
/// #     }
/// # }
/// use annals::entity::testkit::given;
/// use annals::entity::{Cx, Effect, Handle, reply};
///
/// struct Describe;
///
/// impl Handle<Describe> for Account {
///     type Reply = String;
///
///     fn handle(&self, _: &Describe, cx: &Cx<'_>) -> Result<Effect<Self, String>, Self::Error> {
///         let (id, number) = (cx.persistence_id(), cx.sequence_number());
///         assert_eq!(cx.is_new(), number == 0);
///         Ok(reply(format!("{id} ({}) after {number} at {}", cx.id(), cx.now_ms())))
///     }
/// }
///
/// given::<Account>([Happened::Deposited { amount: 1 }])
///     .id("42")
///     .at_ms(1_000)
///     .when(&Describe)
///     .then_reply("Account|42 (42) after 1 at 1000".to_owned());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a> {
    pub(super) id: &'a PersistenceId,
    pub(super) last: u64,
    pub(super) is_new: bool,
    pub(super) now_ms: u64,
    pub(super) command_id: Option<&'a str>,
}

impl Cx<'_> {
    /// Whose state it is: the whole persistence id, `TYPE|ID`.
    pub fn persistence_id(&self) -> &PersistenceId {
        self.id
    }

    /// The entity's own id, without its type.
    pub fn id(&self) -> &str {
        let id = self.id.as_str();
        id.split_once('|').map_or(id, |(_, id)| id)
    }

    /// Whether nothing has happened to it yet. Of durable state: whether there is no value.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The number of the last event; 0 where there is none. Of durable state: the revision.
    pub fn sequence_number(&self) -> u64 {
        self.last
    }

    /// The time, in milliseconds since the Unix epoch. The one door for time: a clock read beside it
    /// cannot be turned by a test.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The command's own id, where it was given one.
    pub fn command_id(&self) -> Option<&str> {
        self.command_id
    }
}
