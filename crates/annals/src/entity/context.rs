//! The context of a command: ids and time.

use crate::PersistenceId;

/// What a handler can read besides the state.
///
/// ```
/// # use annals::entity::{Entity, EntityEvent, Stored};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Stored, Default)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// # enum AccountEvent { Deposited { amount: u64 }, Closed }
/// # impl Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = AccountEvent;
/// #     type Error = std::fmt::Error;
/// #     fn apply(&mut self, event: &AccountEvent) {
/// #         if let AccountEvent::Deposited { amount } = event { self.balance += amount; }
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
///         let request = cx.correlation_id().unwrap_or("none");
///         assert_eq!(cx.is_new(), number == 0);
///         Ok(reply(format!("{id} ({}) at {number}, {} ms, {request}", cx.id(), cx.now_ms())))
///     }
/// }
///
/// given::<Account>([AccountEvent::Deposited { amount: 1 }])
///     .id("42")
///     .at_ms(1_000)
///     .correlation_id("request-7")
///     .when(&Describe)
///     .then_reply("Account|42 (42) at 1, 1000 ms, request-7".to_owned());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a> {
    pub(super) id: &'a PersistenceId,
    pub(super) last: u64,
    pub(super) is_new: bool,
    pub(super) now_ms: u64,
    pub(super) command_id: Option<&'a str>,
    pub(super) correlation_id: Option<&'a str>,
}

impl Cx<'_> {
    /// The full persistence id, `TYPE|ID`.
    pub fn persistence_id(&self) -> &PersistenceId {
        self.id
    }

    /// The entity's id without its type.
    pub fn id(&self) -> &str {
        let id = self.id.as_str();
        id.split_once('|').map_or(id, |(_, id)| id)
    }

    /// Whether the entity has no events yet. For durable state: whether it has no value.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The sequence number of the last event, 0 if there is none. For durable state: the revision.
    pub fn sequence_number(&self) -> u64 {
        self.last
    }

    /// The time in milliseconds since the Unix epoch. Use it instead of reading a clock, so that
    /// tests control time.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The command's own id, if it was sent with `ask_once`.
    pub fn command_id(&self) -> Option<&str> {
        self.command_id
    }

    /// The correlation id that the caller set (`with_correlation`). It is stored with the events of
    /// this command unless the effect sets another one.
    pub fn correlation_id(&self) -> Option<&str> {
        self.correlation_id
    }
}
