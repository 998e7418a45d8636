//! Work on the shards of a collection that a member owns.

use futures_util::future::select_all;

use super::member::ShardMember;
use super::selector::{ShardField, ShardSelector};

impl ShardMember {
    /// Divides a collection into `count` shards, and runs `work` on each of them for as long as we
    /// own it; on several concurrently.
    ///
    /// Work on a shard that moves to another member is dropped, and only after that may the other
    /// begin; it starts over when the shard comes back. Shards are handed over whole and never
    /// change, so only a member that gets a shard has to list it again. Several shards for each
    /// expected member spread the load well. All members must use the same field and count.
    ///
    /// Returns when the work on a shard completes, with its output; all other work is dropped then,
    /// as it is with this future.
    ///
    /// # Panics
    /// Panics if `count` is zero.
    ///
    /// ```no_run
    /// # use dogwatch_client::{Api, Client};
    /// # use dogwatch_controller::sharding::{ShardField, ShardMember};
    /// # use dogwatch_controller::{Action, Context, Controller, Predicate, BoxError, Watched};
    /// # use dogwatch_core::ObjectKey;
    /// # use dogwatch_informer::SharedInformer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: Client, member: ShardMember) -> Result<(), dogwatch_controller::ControllerError> {
    /// member
    ///     .work_on_shards(ShardField::Uid, 16, |part| {
    ///         let pods = SharedInformer::builder(Api::<Pod>::all(client.clone()))
    ///             .reflector(|it| it.shard(part.to_string()))
    ///             .build();
    ///         // For servers that do not shard lists.
    ///         let ours = Predicate::<Pod>::new(move |change| part.selects(&**change.object()));
    ///         let controller = Controller::of(Watched::new(&pods).when(ours))
    ///             .build(|_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) });
    ///         controller.run(std::future::pending())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn work_on_shards<F: Future>(
        &self,
        field: ShardField,
        count: u32,
        work: impl Fn(ShardSelector) -> F,
    ) -> F::Output {
        assert!(count > 0, "a collection has at least one shard");
        let parts = (0..count).filter_map(|index| ShardSelector::new(field, index, count));
        let all = parts.map(|part| Box::pin(self.work_on_part(part, &work)));
        select_all(all).await.0
    }

    async fn work_on_part<F: Future>(
        &self,
        part: ShardSelector,
        work: &impl Fn(ShardSelector) -> F,
    ) -> F::Output {
        let key = part.to_string();
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if self.owns(&key)
                && let Some(output) = self.while_owning(&key, work(part)).await
            {
                return output;
            }
            // The sender lives as long as this member does, so there is always a next change.
            let _ = changes.changed().await;
        }
    }
}
