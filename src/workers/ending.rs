//! When the threads cannot go on, and why.

use tokio::task::JoinSet;

use super::owned::Restored;
use super::worker::Workers;

impl Workers {
    /// Resolves when the workers cannot go on, with the reason.
    pub async fn ended(&self) -> String {
        tokio::select! {
            why = self.has_left() => why,
            () = self.has_panicked() => "a thread panicked, and what it owned has no owner".into(),
        }
    }

    /// Resolves when topics are not followed any more.
    async fn has_left(&self) -> String {
        let Some(followed) = &self.followed else { return std::future::pending().await };
        let mut has_ended = followed.has_ended.clone();
        match has_ended.wait_for(Option::is_some).await {
            Ok(why) => format!("kafka: {}", why.as_deref().unwrap_or_default()),
            Err(_) => std::future::pending().await,
        }
    }

    /// Resolves when a thread is gone that has not said why (W5). One that could not restore its shards has.
    async fn has_panicked(&self) {
        let mut gone = JoinSet::new();
        for mut restored in self.restored() {
            gone.spawn(async move {
                while restored.changed().await.is_ok() {}
                matches!(*restored.borrow(), Restored::Failed(_))
            });
        }
        while let Some(has_told) = gone.join_next().await {
            if let Ok(false) = has_told {
                return;
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use tokio::sync::{mpsc, watch};

    use super::super::worker::{QUEUE, WorkersOptions};
    use super::*;
    use crate::metrics::Metrics;
    use crate::store::{Store, StoreOptions};

    /// What is told when a thread ends after it last said this.
    async fn told_after(last: Restored) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, _) = Store::open(folder.path(), StoreOptions::default()).expect("a store");
        let options = WorkersOptions { store: Arc::new(store), metrics: Metrics::new() };
        let mut workers = Workers::without_threads(&options).expect("started");
        // One that works on.
        let (_working, worked) = watch::channel(Restored::Done);
        workers.also_wait_for(worked);
        let (report, restored) = watch::channel(last);
        let (sender, inbox) = mpsc::channel(QUEUE);
        workers.add(thread::spawn(move || drop((report, inbox))), sender, restored);
        let told = tokio::time::timeout(Duration::from_millis(500), workers.ended()).await.ok();
        workers.stop().await;
        told
    }

    #[tokio::test]
    async fn a_thread_that_is_gone_without_a_word_ends_the_service() {
        let told = told_after(Restored::Done).await.expect("the service goes on");
        assert!(told.contains("panicked"), "{told}");
        assert_eq!(told_after(Restored::Working).await, Some(told));
        assert_eq!(told_after(Restored::Failed("damaged".into())).await, None, "/readyz says why, and answers");
    }
}
