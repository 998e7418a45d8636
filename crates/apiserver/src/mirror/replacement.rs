//! A list of another server, fed object by object.

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch_core::ObjectKey;

use super::copy::Mirror;
use super::error::MirrorError;
use super::object::MirrorObject;
use crate::store::Encoded;

/// A list that is fed to a mirror. The mirror is unchanged until [`Self::finish`], and if this is
/// dropped.
///
/// An object that the mirror has already, at the same version, is not held twice.
#[derive(Debug)]
pub struct Replacement {
    mirror: Mirror,
    objects: BTreeMap<ObjectKey, Arc<Encoded>>,
}

impl Mirror {
    /// Replaces the state by a list.
    ///
    /// Watches continue: the differences become events at the version of the list, first the
    /// deletions, which nothing else reports, then the changes, in the order of their versions. The
    /// versions between the last one and this one cannot be read.
    ///
    /// # Errors
    ///
    /// Returns an error if an object cannot be stored, or if the list is older than the mirror.
    pub fn replace(&self, version: u64, objects: Vec<MirrorObject>) -> Result<(), MirrorError> {
        let mut replacement = self.replacement();
        for object in objects {
            replacement.add(&object)?;
        }
        replacement.finish(version)
    }

    /// Begins a list that is fed object by object, so that not all of its bytes have to be in
    /// memory at once.
    pub fn replacement(&self) -> Replacement {
        Replacement { mirror: self.clone(), objects: BTreeMap::new() }
    }
}

impl Replacement {
    /// Adds an object of the list.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be stored.
    pub fn add(&mut self, object: &MirrorObject) -> Result<(), MirrorError> {
        let stored = self.mirror.encode_listed(object)?;
        self.objects.insert(stored.key().clone(), stored);
        Ok(())
    }

    /// Removes an object that was added: the server has withdrawn it.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// Replaces the state of the mirror by the list, whose version this is.
    ///
    /// # Errors
    ///
    /// As [`Mirror::replace`].
    pub fn finish(self, version: u64) -> Result<(), MirrorError> {
        self.mirror.replace_by(version, self.objects)
    }
}
