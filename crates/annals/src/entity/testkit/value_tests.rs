//! The testkit of durable values, tested with a light that can be switched.

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use super::{given_no_value, given_value};
use crate::entity::durable::{Effect, Entity, Handle, delete, none, update};
use crate::entity::{Cx, Stored};

#[derive(Default, Serialize, Deserialize, Stored)]
struct Light {
    is_on: bool,
    #[serde(skip)]
    unstored: u32,
}

impl Entity for Light {
    const TYPE: &'static str = "Light";
    type Error = std::fmt::Error;
}

enum Command {
    Switch,
    Remove,
    Nothing,
    Fail,
    ByUnstored,
    Impure(Cell<bool>),
}

impl Handle<Command> for Light {
    type Reply = bool;

    fn handle(
        &self,
        command: &Command,
        cx: &Cx<'_>,
    ) -> Result<Effect<Self, bool>, std::fmt::Error> {
        let is_on = !self.is_on;
        let switched = Self {
            is_on,
            unstored: self.unstored,
        };
        Ok(match command {
            Command::Switch => update(switched).reply(|light| light.is_on),
            Command::Remove => delete().reply(|light: &Self| light.is_on),
            Command::Nothing => {
                let is_new = cx.is_new();
                none().reply(move |_| is_new)
            }
            Command::Fail => return Err(std::fmt::Error),
            Command::ByUnstored if self.unstored > 0 => delete().reply(|_| true),
            Command::ByUnstored => none().reply(|_| true),
            Command::Impure(flag) if flag.replace(!flag.get()) => delete().reply(|_| true),
            Command::Impure(_) => none().reply(|_| true),
        })
    }
}

#[test]
fn commands_see_the_value_that_the_last_one_left() {
    given_no_value::<Light>()
        .when(&Command::Nothing)
        .then_unchanged()
        .then_reply(true)
        .when(&Command::Switch)
        .then_value(|light| assert!(light.is_on))
        .then_reply(true)
        .when(&Command::Nothing)
        .then_reply(false)
        .when(&Command::Remove)
        .then_deleted()
        .then_reply(false)
        .when(&Command::Nothing)
        .then_reply(true)
        .when(&Command::Fail)
        .then_rejected(&std::fmt::Error);
}

#[test]
#[should_panic(expected = "another outcome")]
fn another_outcome_fails() {
    given_no_value::<Light>()
        .when(&Command::Switch)
        .then_deleted();
}

#[test]
#[should_panic(expected = "another reply")]
fn another_reply_fails() {
    given_no_value::<Light>()
        .when(&Command::Switch)
        .then_reply(false);
}

#[test]
#[should_panic(expected = "the command was accepted")]
fn an_accepted_command_fails() {
    let decided = given_no_value::<Light>().when(&Command::Switch);
    decided.then_rejected(&std::fmt::Error);
}

#[test]
#[should_panic(expected = "deciding twice decides differently")]
fn impure_handlers_are_found() {
    let _ = given_no_value::<Light>().when(&Command::Impure(Cell::new(true)));
}

#[test]
#[should_panic(expected = "the value read back leads to another decision")]
fn fields_that_are_not_stored_must_not_decide() {
    let light = Light {
        is_on: true,
        unstored: 1,
    };
    let _ = given_value(light).when(&Command::ByUnstored);
}
