//! Consumer groups over HTTP.
//!
//! Guarantees: an acknowledgement that was begun is finished, also if its client disconnects. A member
//! that disconnects while it waits is handed nothing; what was handed out to it and not received comes
//! again after its deadline.

use std::time::Duration;

use annals::group::{Delivery, Group, Take};
use annals::{PersistenceId, Result};
use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use super::app::App;
use super::http::{self, Call, parse};
use super::problem::{Answer, Problem};
use crate::wire::{self, Count};

/// The longest wait of a member: five minutes.
const WAIT_MAX_MS: u64 = 300_000;

fn absent(name: &str) -> Problem {
    Problem::absent(format!("there is no such group. group=`{name}`"))
}

async fn named(app: &App, name: &str) -> Answer<Group> {
    Ok(app.annals().await?.groups().group(name)?)
}

impl Call {
    /// The group in the path.
    async fn group(&self) -> Answer<Group> {
        named(&self.app, &self.segment(2)?).await
    }
}

/// `GET /v1/groups`
pub(super) async fn list(call: Call) -> Answer {
    call.no_params()?;
    let groups = call.app.annals().await?.groups().list().await?;
    let lines = groups
        .iter()
        .map(|it| Ok(wire::line(&wire::Group::new(it))));
    let lines: Vec<Result<String>> = lines.collect();
    http::lines(stream::iter(lines)).await
}

/// `PUT /v1/groups/{group}`
pub(super) async fn put(call: Call) -> Answer {
    call.no_params()?;
    let name = call.segment(2)?.into_owned();
    let (app, _, body) = call.read_json().await?;
    let settings = parse::<wire::NewGroup>(&body)?.settings()?;
    let writer = app.clone();
    let write = async move {
        let group = named(&writer, &name).await?;
        group.put(&settings).await?;
        let status = group.status().await?.ok_or_else(|| absent(&name))?;
        Ok(http::json(&wire::Group::new(&status)))
    };
    app.finish(write).await
}

/// `GET /v1/groups/{group}`
pub(super) async fn status(call: Call) -> Answer {
    call.no_params()?;
    let group = call.group().await?;
    let status = group.status().await?;
    let status = status.ok_or_else(|| absent(group.name()))?;
    Ok(http::json(&wire::Group::new(&status)))
}

/// `DELETE /v1/groups/{group}`
pub(super) async fn delete(call: Call) -> Answer {
    call.no_params()?;
    let group = call.group().await?;
    let write = async move {
        match group.delete().await? {
            true => Ok(http::json(&wire::DeletedGroup::new(group.name()))),
            false => Err(absent(group.name())),
        }
    };
    call.app.finish(write).await
}

/// `POST /v1/groups/{group}/next`: a response without deliveries begins at once, so that members that
/// wait are no requests in flight.
pub(super) async fn next(call: Call) -> Answer {
    let params = call.params(&["max", "wait", "member"])?;
    let mut take = Take::new().member(params.text("member").unwrap_or_default());
    if let Some(max) = params.number("max")? {
        take = take.max(max);
    }
    let wait: u64 = params.number("wait")?.unwrap_or_default();
    if wait > WAIT_MAX_MS {
        return Err(Problem::invalid(format!(
            "wait is 0 to {WAIT_MAX_MS} milliseconds"
        )));
    }
    let group = call.group().await?;
    let first = group.next(&take).await?;
    let first = first.ok_or_else(|| absent(group.name()))?;
    if !first.is_empty() || wait == 0 {
        return http::lines(Box::pin(lines(first))).await;
    }
    let take = take.wait(Duration::from_millis(wait));
    let later = stream::once(async move { group.next(&take).await });
    // None: it was deleted.
    let later = later.map_ok(|deliveries| lines(deliveries.unwrap_or_default()));
    let ends = call.app.closing().clone().cancelled_owned();
    let later = later.try_flatten().take_until(Box::pin(ends));
    Ok(http::lines_at_once(Box::pin(later)))
}

fn lines(deliveries: Vec<Delivery>) -> impl Stream<Item = Result<String>> + Send {
    let lines = deliveries.into_iter();
    stream::iter(lines.map(|delivery| Ok(wire::line(&wire::Delivery::new(&delivery)))))
}

/// `POST /v1/groups/{group}/ack`
pub(super) async fn ack(call: Call) -> Answer {
    call.no_params()?;
    let name = call.segment(2)?.into_owned();
    let (app, _, body) = call.read_json().await?;
    let ids = wire::DeliveryIds::new(parse::<wire::Ack>(&body)?.deliveries)?;
    let writer = app.clone();
    let write = async move {
        let settled = named(&writer, &name).await?.ack(&ids.ids()).await?;
        let deliveries = ids.outcomes(settled.ok_or_else(|| absent(&name))?);
        Ok(http::json(&wire::Outcomes { deliveries }))
    };
    app.finish(write).await
}

/// `POST /v1/groups/{group}/nack`
pub(super) async fn nack(call: Call) -> Answer {
    call.no_params()?;
    let name = call.segment(2)?.into_owned();
    let (app, _, body) = call.read_json().await?;
    let nack = parse::<wire::Nack>(&body)?;
    let ids = wire::DeliveryIds::new(nack.deliveries)?;
    let reason = nack.reason.unwrap_or_default();
    let writer = app.clone();
    let write = async move {
        let group = named(&writer, &name).await?;
        let settled = group.nack(&ids.ids(), &reason).await?;
        let deliveries = ids.outcomes(settled.ok_or_else(|| absent(&name))?);
        Ok(http::json(&wire::Outcomes { deliveries }))
    };
    app.finish(write).await
}

/// `GET /v1/groups/{group}/dead-letters`
pub(super) async fn dead_letters(call: Call) -> Answer {
    call.no_params()?;
    let group = call.group().await?;
    let dead = group.dead_letters().await?;
    let dead = dead.ok_or_else(|| absent(group.name()))?;
    let lines = dead.iter();
    let lines = lines.map(|dead| Ok(wire::line(&wire::GroupDeadLetters::new(dead))));
    let lines: Vec<Result<String>> = lines.collect();
    http::lines(stream::iter(lines)).await
}

/// The id whose dead letters are meant; without one, all.
fn one_id(call: &Call) -> Answer<Option<PersistenceId>> {
    call.params(&["persistence_id"])?.parsed("persistence_id")
}

/// `POST /v1/groups/{group}/dead-letters/retry`
pub(super) async fn retry(call: Call) -> Answer {
    let (id, group) = (one_id(&call)?, call.group().await?);
    let write = async move {
        let retried = group.retry(id.as_ref()).await?;
        let retried = Count(retried.ok_or_else(|| absent(group.name()))?);
        let group = group.name();
        Ok(http::json(&wire::Retried { group, retried }))
    };
    call.app.finish(write).await
}

/// `POST /v1/groups/{group}/dead-letters/discard`
pub(super) async fn discard(call: Call) -> Answer {
    let (id, group) = (one_id(&call)?, call.group().await?);
    let write = async move {
        let discarded = group.discard(id.as_ref()).await?;
        let discarded = Count(discarded.ok_or_else(|| absent(group.name()))?);
        let group = group.name();
        Ok(http::json(&wire::Discarded { group, discarded }))
    };
    call.app.finish(write).await
}
