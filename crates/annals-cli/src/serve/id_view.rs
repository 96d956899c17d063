//! The built-in view of ids: on a store that has a feed, the server keeps it up to date and
//! `GET /v1/journal` lists it.
//!
//! Promises: a page has every id that was acknowledged before the request, and none that was purged
//! before; if the view cannot be made current soon enough, the answer is 503, never an older list. Ids of
//! such a store are never listed in another order, so that pages fit together: while the view is built
//! for the first time, the answer is 503, too. No lease: the view of a server that was killed goes on at
//! once.
//! Trusts: nobody else to drop the journal's table; the server opens the view again if a client does.

use std::time::Duration;

use annals::SystemClock;
use annals::projection::IdView;

use super::app::App;
use super::problem::{Answer, Problem};

/// How long a request waits for the view.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long to wait before a view that failed is run again.
const PAUSE: Duration = Duration::from_secs(1);

/// The view, with everything that was acknowledged before; `None`: the store has no feed.
pub(super) async fn current(app: &App) -> Answer<Option<IdView>> {
    let Some(view) = app.ids().await? else {
        return Ok(None);
    };
    wait(&view, WAIT_MAX).await?;
    Ok(Some(view))
}

async fn wait(view: &IdView, most: Duration) -> Answer<()> {
    match SystemClock::within(most, view.caught_up()).await {
        Some(caught_up) => Ok(caught_up?),
        None => Err(Problem::unavailable(
            "the list of ids is not complete yet: the server is still reading the feed. try again",
        )),
    }
}

/// Keeps the view up to date until the server stops.
pub(super) async fn run(app: App) {
    let mut reopened = app.reopened();
    loop {
        reopened.mark_unchanged();
        tokio::select! {
            () = app.closing().cancelled() => return,
            // The app has the sender.
            _ = reopened.changed() => {}
            () = run_once(&app) => {}
        }
    }
}

async fn run_once(app: &App) {
    match app.ids().await {
        Ok(None) => return std::future::pending().await,
        Ok(Some(view)) => {
            let Err(error) = view.run().await;
            tracing::warn!(%error, "the view of ids stopped; it is run again");
        }
        Err(error) => tracing::debug!(%error, "there is no journal to list"),
    }
    app.clock().passes(PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals::journal::Expected;
    use annals::layout::AnnalsLayout;
    use annals::memory::Memory;
    use annals::{Annals, Codec, NewEvent};

    #[tokio::test]
    async fn a_view_that_is_late_is_unavailable_until_it_has_caught_up() {
        let layout = AnnalsLayout::default();
        let annals = Annals::create(Memory::new(), &layout).await.unwrap();
        let opened = NewEvent::new(Codec::Text, "opened");
        let id = "Cart|1".parse().unwrap();
        let journal = annals.journal();
        journal.append(&id, Expected::Empty, opened).await.unwrap();
        let view = annals.projections().ids().unwrap().unwrap();

        let late = wait(&view, Duration::from_millis(1)).await.unwrap_err();
        let response = late.into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");

        let running = view.clone();
        let running = tokio::spawn(async move { running.run().await });
        wait(&view, Duration::from_secs(600)).await.unwrap();
        running.abort();
    }
}
