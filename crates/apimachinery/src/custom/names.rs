//! Acceptance of the names of a definition, and the conditions that report it.
//!
//! Within a group, the first definition to ask for a name gets it. A definition whose names are
//! accepted is established at once: no endpoints have to be installed first. Messages and reasons
//! are those of k8s.io/apiextensions-apiserver v0.36.4 pkg/controller/status/naming_controller.go.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::definition::Names;

/// Sets the accepted names and the conditions of a definition, given all other definitions. Returns
/// true if that changed anything; then the others of its group should be settled again, since names
/// may have become free.
///
/// `now` is the time in the form of the API, for conditions that change.
pub fn settle<'a>(definition: &mut Value, others: impl IntoIterator<Item = &'a Value>, now: &str) -> bool {
    let group = definition["spec"]["group"].clone();
    let others = others.into_iter().filter(|other| other["spec"]["group"] == group);
    let others: Vec<_> = others.map(|it| Names::read(&it["status"]["acceptedNames"])).collect();
    settle_among(definition, &others, now)
}

/// Settles names like [`settle`], given the accepted names of all other definitions of the group.
pub fn settle_among<'a>(
    definition: &mut Value,
    others: impl IntoIterator<Item = &'a Names>,
    now: &str,
) -> bool {
    let requested = Names::read(&definition["spec"]["names"]);
    let accepted = Names::read(&definition["status"]["acceptedNames"]);
    let established = is_true(definition, "Established");
    if requested == accepted && established {
        return false;
    }
    let taken = Taken::by(others);
    let (names, conflict) = taken.decide(&requested, &accepted);
    let before = definition["status"].clone();
    definition["status"]["acceptedNames"] = names.to_value();
    match &conflict {
        None => set_condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
        Some((reason, words)) => set_condition(definition, "NamesAccepted", "False", reason, words, now),
    }
    if conflict.is_none() && !established {
        let words = "the initial names have been accepted";
        set_condition(definition, "Established", "True", "InitialNamesAccepted", words, now);
    } else if !established {
        set_condition(definition, "Established", "False", "NotAccepted", "not all names are accepted", now);
    }
    definition["status"] != before
}

/// Sets the condition that the objects of a definition are being deleted.
pub fn mark_terminating(definition: &mut Value, now: &str) {
    let words = "CustomResource deletion is in progress";
    set_condition(definition, "Terminating", "True", "InstanceDeletionInProgress", words, now);
}

/// The reason of the condition that the objects of a definition are gone.
const EMPTIED: &str = "InstanceDeletionCompleted";

/// Sets the condition that the objects of a definition are gone. While it is `terminating`, no
/// object can be created.
pub fn mark_emptied(definition: &mut Value, terminating: bool, now: &str) {
    let status = if terminating { "True" } else { "False" };
    set_condition(definition, "Terminating", status, EMPTIED, "removed all instances", now);
}

/// Returns true if a definition has the condition that its objects are gone.
pub fn is_emptied(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|known| known["type"] == "Terminating" && known["reason"] == EMPTIED)
}

/// Returns true if a condition of a definition is true.
pub fn is_true(definition: &Value, condition: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|known| known["type"] == condition && known["status"] == "True")
}

/// The names that other definitions of the group have.
struct Taken {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

impl Taken {
    fn by<'a>(others: impl IntoIterator<Item = &'a Names>) -> Self {
        let mut taken = Self { resources: HashSet::new(), kinds: HashSet::new() };
        for names in others {
            taken.resources.extend([&names.plural, &names.singular].map(Clone::clone));
            taken.resources.extend(names.short_names.iter().cloned());
            taken.kinds.extend([&names.kind, &names.list_kind].map(Clone::clone));
        }
        taken
    }

    /// Returns the accepted names, and the last conflict.
    ///
    /// Each claim is accepted or rejected as a whole: if another definition has one of its names,
    /// the names that were accepted before stay.
    fn decide(&self, requested: &Names, accepted: &Names) -> (Names, Option<(&'static str, String)>) {
        let claims = [
            ("PluralConflict", one(&requested.plural), one(&accepted.plural), &self.resources),
            ("SingularConflict", one(&requested.singular), one(&accepted.singular), &self.resources),
            ("ShortNamesConflict", &requested.short_names[..], &accepted.short_names[..], &self.resources),
            ("KindConflict", one(&requested.kind), one(&accepted.kind), &self.kinds),
            ("ListKindConflict", one(&requested.list_kind), one(&accepted.list_kind), &self.kinds),
        ];
        let refused = claims.map(|(reason, wanted, held, taken)| {
            let others = wanted.iter().filter(|name| taken.contains(*name) && !held.contains(name));
            (reason, others.map(|name| in_use(name)).collect::<Vec<_>>())
        });
        let [plural, singular, short_names, kind, list_kind] =
            refused.each_ref().map(|(_, words)| if words.is_empty() { requested } else { accepted });
        let names = Names {
            plural: plural.plural.clone(),
            singular: singular.singular.clone(),
            short_names: short_names.short_names.clone(),
            kind: kind.kind.clone(),
            list_kind: list_kind.list_kind.clone(),
            categories: requested.categories.clone(),
        };
        let last = refused.into_iter().rfind(|(_, words)| !words.is_empty());
        let conflict = last.map(|(reason, mut words)| match words.len() {
            1 => (reason, words.remove(0)),
            _ => (reason, format!("[{}]", words.join(", "))),
        });
        (names, conflict)
    }
}

fn one(name: &String) -> &[String] {
    std::slice::from_ref(name)
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

/// Sets a condition. Its transition time changes only with its status.
fn set_condition(definition: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let list = &mut definition["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    let new = json!({
        "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match list.iter_mut().find(|known| known["type"] == kind) {
        None => list.push(new),
        Some(known) => {
            let since =
                if known["status"] == status { known["lastTransitionTime"].clone() } else { now.into() };
            *known = new;
            known["lastTransitionTime"] = since;
        }
    }
}
