//! Histories copied out of the tables of the plugins and back: the plugins read the same events, and
//! continue.

use std::sync::Arc;

use annals::Annals;
use annals::copy::{Copier, CopyEndpoint};
use annals::memory::Memory;
use annals_jvm::AnyLayout;
use futures::TryStreamExt;

use super::both::{Both, id, with_every_layout};
use super::{lines, opaque, texts, values};

/// The shared journal, as source or target of a copy.
async fn theirs(both: &Both) -> CopyEndpoint {
    CopyEndpoint::new(both.journal().await)
}

/// Copies everything. Returns the number of verified events.
async fn copy(from: CopyEndpoint, to: CopyEndpoint) -> u64 {
    let outcomes = Copier::new(from, to).all("");
    let outcomes: Vec<_> = outcomes.try_collect().await.unwrap();
    let failures = outcomes.iter().filter_map(|it| it.failure.as_ref());
    assert_eq!(failures.count(), 0, "{outcomes:?}");
    outcomes.iter().map(|it| it.copied.verified).sum()
}

pub(crate) async fn a_copy_there_and_back_is_identical() {
    with_every_layout(async |both| {
        let (whole, cut) = (id("Cart|copied"), id("Cart|cut"));
        let mut events = lines(&values());
        events.extend(lines(&opaque()));
        both.they_append(&whole, &events, false);
        both.they_append(&whole, &texts("together", 12), true);
        both.they_append(&cut, &texts("cut", 120), false);
        both.they_delete(&cut, 105);
        let before = (both.they_see(&whole), both.they_see(&cut));
        assert_eq!((before.1.0.len(), before.1.1), (15, 120));
        let count = before.0.0.len() + before.1.0.len();

        let (memory, settings) = (Arc::new(Memory::new()), AnyLayout::default());
        let ours = Annals::create(memory, &settings).await.unwrap();
        let ours = CopyEndpoint::from(&ours);
        let copied = copy(theirs(both).await, ours.clone()).await;
        assert_eq!(copied, count as u64);
        for id in [&whole, &cut] {
            both.journal().await.purge(id).await.unwrap();
            assert_eq!(both.they_see(id), (vec![], 0), "it is gone");
        }
        assert_eq!(copy(ours, theirs(both).await).await, count as u64);

        assert_eq!((both.they_see(&whole), both.they_see(&cut)), before);
        for id in [&whole, &cut] {
            let last = both.agree(id, &[]).await;
            assert_eq!(both.they_append(id, &texts("more", 3), true), last + 3);
            assert_eq!(both.agree(id, &[]).await, last + 3);
        }
    })
    .await;
}
