//! Projections over HTTP: how they are doing, and what operators do with them.
//!
//! Promises: the same as `annals projection`. No projection of users runs in the server: it reads and
//! changes their records, which the programs that run them read. The view of ids, which does run here
//! (`id_view`), is not among them.

use annals::PersistenceId;
use annals::projection::{ProjectionStatus, Projections};
use futures::stream;

use super::app::App;
use super::http;
use super::http::Call;
use super::problem::{Answer, Problem};
use crate::wire::{self, DeadLetterAction};

async fn of(app: &App) -> annals::Result<Projections> {
    Ok(app.annals().await?.projections())
}

fn absent(name: &str) -> Problem {
    Problem::absent("there is no such projection").fact("projection", name)
}

/// `GET /v1/projections`
pub(super) async fn list(call: Call) -> Answer {
    call.no_params()?;
    let all = of(&call.app).await?.list().await?;
    let line = |it: &ProjectionStatus| Ok(wire::line(&wire::Projection::new(it)));
    let lines: Vec<_> = all.iter().map(line).collect();
    http::lines(stream::iter(lines)).await
}

/// `GET /v1/projections/{projection}`
pub(super) async fn status(call: Call) -> Answer {
    call.no_params()?;
    let name = call.segment(2)?;
    let status = of(&call.app).await?.status(&name).await?;
    let status = status.ok_or_else(|| absent(&name))?;
    Ok(http::json(&wire::WholeProjection::new(&status)))
}

/// `POST /v1/projections/{projection}/pause`
pub(super) async fn pause(call: Call) -> Answer {
    set_paused(call, true).await
}

/// `POST /v1/projections/{projection}/resume`
pub(super) async fn resume(call: Call) -> Answer {
    set_paused(call, false).await
}

async fn set_paused(call: Call, paused: bool) -> Answer {
    call.no_params()?;
    let (name, writer) = (call.segment(2)?.into_owned(), call.app.clone());
    let write = async move {
        let projections = of(&writer).await?;
        let exists = match paused {
            true => projections.pause(&name).await?,
            false => projections.resume(&name).await?,
        };
        match exists {
            false => Err(absent(&name)),
            true => Ok(http::json(&wire::ProjectionPaused {
                projection: &name,
                paused,
            })),
        }
    };
    call.app.finish(write).await
}

/// `POST /v1/projections/{projection}/rebuild`
pub(super) async fn rebuild(call: Call) -> Answer {
    call.no_params()?;
    let (name, writer) = (call.segment(2)?.into_owned(), call.app.clone());
    let write = async move {
        let build = of(&writer).await?.rebuild(&name).await?;
        numbered(&name, build)
    };
    call.app.finish(write).await
}

/// `POST /v1/projections/{projection}/switch`
pub(super) async fn switch(call: Call) -> Answer {
    call.no_params()?;
    let (name, writer) = (call.segment(2)?.into_owned(), call.app.clone());
    let write = async move {
        let build = of(&writer).await?.switch(&name).await?;
        numbered(&name, build)
    };
    call.app.finish(write).await
}

fn numbered(projection: &str, build: Option<u32>) -> Answer {
    let build = build.ok_or_else(|| absent(projection))?;
    Ok(http::json(&wire::ProjectionBuild { projection, build }))
}

/// The id whose dead letters are meant; all without it.
fn id_of(call: &Call) -> Answer<Option<PersistenceId>> {
    call.params(&["id"])?.parsed("id")
}

fn no_letters(id: &PersistenceId) -> Problem {
    Problem::absent("there are no dead letters of this id").fact("id", id)
}

/// `GET /v1/projections/{projection}/dead-letters`
pub(super) async fn dead_letters(call: Call) -> Answer {
    let (name, id) = (call.segment(2)?, id_of(&call)?);
    let projections = of(&call.app).await?;
    let letters = crate::projections::dead_letters(&projections, &name, id.as_ref()).await?;
    let letters = letters.ok_or_else(|| absent(&name))?;
    if let Some(id) = id.filter(|_| letters.is_empty()) {
        return Err(no_letters(&id));
    }
    let letters = letters.iter().map(wire::ProjectionDeadLetter::new);
    let lines: Vec<_> = letters.map(|letters| Ok(wire::line(&letters))).collect();
    http::lines(stream::iter(lines)).await
}

/// `POST /v1/projections/{projection}/dead-letters/retry`
pub(super) async fn retry(call: Call) -> Answer {
    request(call, DeadLetterAction::Retry).await
}

/// `POST /v1/projections/{projection}/dead-letters/discard`
pub(super) async fn discard(call: Call) -> Answer {
    request(call, DeadLetterAction::Discard).await
}

async fn request(call: Call, action: DeadLetterAction) -> Answer {
    let (name, id) = (call.segment(2)?.into_owned(), id_of(&call)?);
    let writer = call.app.clone();
    let write = async move {
        let projections = of(&writer).await?;
        let requested =
            crate::projections::request(&projections, &name, id.as_ref(), action).await?;
        let requested = requested.ok_or_else(|| absent(&name))?;
        match id.filter(|_| requested.ids.0 == 0) {
            Some(id) => Err(no_letters(&id)),
            None => Ok(http::json(&requested)),
        }
    };
    call.app.finish(write).await
}
