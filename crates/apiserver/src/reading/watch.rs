//! The watch events of changes, and their encoding.
//!
//! ```text
//! before ∖ after   selected        not selected, or gone
//! selected         MODIFIED        DELETED, with the old object and the new version
//! not selected     ADDED           nothing
//! ```

use std::sync::Arc;

use bytes::Bytes;

use super::selection::Selection;
use crate::protobuf::EncodeError;
use crate::store::{Change, Encoded, EventType};

/// One event of a watch, not yet encoded.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The type of the event.
    pub event_type: EventType,
    /// The object in the event.
    pub object: Arc<Encoded>,
}

/// Returns the event of a change for a watch with this selection, if there is one.
pub(crate) fn event_for(change: &Change, selection: &Selection) -> Option<Frame> {
    let selected = |object: &Option<Arc<Encoded>>| object.as_ref().is_some_and(|it| selection.holds(it));
    let (event_type, object) = match (selected(&change.before), selected(&change.after)) {
        (false, false) => return None,
        (false, true) => (EventType::Added, change.after.clone()),
        (true, true) => (EventType::Modified, change.after.clone()),
        (true, false) => (EventType::Deleted, change.last()),
    };
    object.map(|object| Frame { event_type, object })
}

impl Frame {
    /// Returns the event for an object that exists when the watch starts.
    pub(crate) fn initial(object: Arc<Encoded>) -> Self {
        Self { event_type: EventType::Added, object }
    }

    /// Writes the event as a line of JSON, in pieces that are shared with all other watches that
    /// send it.
    pub(crate) fn write(&self, out: &mut impl Extend<Bytes>) {
        self.object.write_line(self.event_type, out);
    }

    /// Writes the event as a frame in protobuf, in pieces that are shared in the same way.
    ///
    /// # Errors
    ///
    /// Returns an error, and writes nothing, if the object has no protobuf encoding.
    pub(crate) fn write_protobuf(&self, out: &mut impl Extend<Bytes>) -> Result<(), EncodeError> {
        self.object.protobuf()?.write_event(self.event_type, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dogwatch_core::ObjectKey;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::store::{Draft, History};

    fn state(name: &str, colour: &str, version: u64) -> Arc<Encoded> {
        let object = json!({ "metadata": { "name": name, "labels": { "colour": colour } } });
        Arc::new(Draft::new(&object, vec![]).expect("it has a name").at(version))
    }

    fn red() -> Selection {
        Selection { labels: "colour=red".parse().expect("valid"), ..Selection::default() }
    }

    #[test]
    fn entering_and_leaving_a_selection_are_additions_and_deletions() {
        let (red_5, blue_5) = (Some(state("a", "red", 5)), Some(state("a", "blue", 5)));
        let (red_6, blue_6) = (Some(state("a", "red", 6)), Some(state("a", "blue", 6)));
        for (before, after, expected) in [
            (None, red_6.clone(), Some(("ADDED", "red"))),
            (blue_5.clone(), red_6.clone(), Some(("ADDED", "red"))),
            (red_5.clone(), red_6, Some(("MODIFIED", "red"))),
            (red_5.clone(), blue_6.clone(), Some(("DELETED", "red"))),
            (red_5, None, Some(("DELETED", "red"))),
            (blue_5.clone(), blue_6, None),
            (blue_5, None, None),
        ] {
            let event_type = event_for(&Change::new(6, before, after), &red());
            let seen = event_type.map(|it| {
                assert_eq!(it.object.version(), 6, "every event carries the version of its change");
                (it.event_type.as_str(), it.object.labels().get("colour").unwrap_or_default().to_owned())
            });
            assert_eq!(seen, expected.map(|(kind, colour)| (kind, colour.to_owned())));
        }
    }

    #[test]
    fn a_frame_is_one_line_of_json() {
        let frame = Frame::initial(state("a", "red", 7));
        let mut line = Vec::new();
        frame.write(&mut line);
        let line = line.concat();
        assert_eq!(line.last(), Some(&b'\n'));
        let value: Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(
            (&value["type"], &value["object"]["metadata"]["resourceVersion"]),
            (&json!("ADDED"), &json!("7"))
        );
    }

    proptest! {
        /// For every selection: a list at N plus the events up to M equals a list at M.
        #[test]
        fn a_selected_list_plus_its_frames_is_a_later_selected_list(
            writes in proptest::collection::vec((0..5u8, 0..3u8), 1..60),
            split in any::<prop::sample::Index>(),
        ) {
            let mut history = History::default();
            for (at, (name, what)) in writes.iter().enumerate() {
                let (key, version) = (ObjectKey::cluster(&name.to_string()), at as u64 + 1);
                let after = match what { 0 => None, 1 => Some("red"), _ => Some("blue") };
                if after.is_some() || history.get(&key).is_some() {
                    history.write(&key, version, after.map(|colour| state(key.name(), colour, version)));
                }
            }
            let end = writes.len() as u64;
            let listed = |version: u64| -> BTreeMap<String, u64> {
                let all = history.list_at(version, None).expect("kept");
                all.filter(|it| red().holds(it)).map(|it| (it.key().to_string(), it.version())).collect()
            };
            let from = split.index(writes.len() + 1) as u64;
            let mut folded = listed(from);
            let mut position = history.position_after(from).expect("kept");
            while let Some(change) = history.change(position).expect("kept") {
                position += 1;
                let Some(frame) = event_for(change, &red()) else { continue };
                let (key, version) = (frame.object.key().to_string(), frame.object.version());
                let before = if frame.event_type == EventType::Deleted { folded.remove(&key) } else { folded.insert(key, version) };
                prop_assert_eq!(before.is_none(), frame.event_type == EventType::Added, "only additions are about objects that were not selected before");
            }
            prop_assert_eq!(folded, listed(end));
        }
    }
}
