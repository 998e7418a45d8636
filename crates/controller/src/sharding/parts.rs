//! The parts of a collection that are a member's, and the work on each of them.

use futures_util::future::select_all;

use super::member::ShardMember;
use super::selector::{ShardField, ShardSelector};

impl ShardMember {
    /// Divides a collection into `count` parts, and does `work` on each of them for as long as it is ours; on several at once.
    ///
    /// Work on a part that goes to another member is dropped, and only after that may the other begin; it begins anew when the part
    /// comes back. Parts are handed over whole and never change, so that nobody reads a collection anew but those who get a part
    /// of it: several for each member that is to be expected spread the work well. All members must name the same field and number.
    ///
    /// Ends when the work on a part ends by itself, with what came of it; all other work is dropped then, as it is with this future.
    ///
    /// # Panics
    /// When there are no parts.
    ///
    /// ```no_run
    /// # use dogwatch_client::{Api, Client};
    /// # use dogwatch_controller::sharding::{ShardField, ShardMember};
    /// # use dogwatch_controller::{Action, Context, Controller, Predicate, ReconcileError, Watched};
    /// # use dogwatch_core::ObjectKey;
    /// # use dogwatch_informer::SharedInformer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: Client, member: ShardMember) -> Result<(), dogwatch_controller::ControllerError> {
    /// member
    ///     .work_on_parts(ShardField::Uid, 16, |part| {
    ///         let pods = SharedInformer::builder(Api::<Pod>::all(client.clone()))
    ///             .reflector(|it| it.shard(part.to_string()))
    ///             .build();
    ///         // For servers that do not divide.
    ///         let ours = Predicate::<Pod>::new(move |change| part.selects(&**change.object()));
    ///         let controller = Controller::for_(Watched::new(&pods).when(ours))
    ///             .build(|_: ObjectKey, _: Context| async { Ok::<_, ReconcileError>(Action::Done) });
    ///         controller.run(std::future::pending())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn work_on_parts<F: Future>(
        &self,
        field: ShardField,
        count: u32,
        work: impl Fn(ShardSelector) -> F,
    ) -> F::Output {
        assert!(count > 0, "a collection has at least one part");
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
