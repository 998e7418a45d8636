// The explanation of each label, by the part of the page that has it. A label shows it when the
// pointer rests on it, and the legend lists all of them.

const PARTS = [
  ["totals", "The numbers at the top", {
    "Informers synced": "Informers whose cache follows the server now. Below: how often their watches were cut, and how often they listed all objects again.",
    "Objects": "Objects in all caches.",
    "Memory of objects": "The memory of the objects, in the caches that measure it.",
    "Events": "Changes that the informers receive from the server.",
    "Reconciles": "Calls of all reconcilers.",
    "Keys waiting": "Objects that wait in a work queue for a free worker.",
    "Calls": "gRPC calls on all channels.",
  }],
  ["pipeline", "The pipeline, from left to right", {
    "Server": "The API server, and the changes that it sends to the informers.",
    "Reflector": "Lists all objects of a kind, and then watches them: its state, and the changes that it receives.",
    "Delta queue": "Changes that have arrived and are not in the cache yet, and the number that fits.",
    "Cache": "The last known state of each object. The version is the resource version that it has reached.",
    "Handlers": "Code of the program that is called for each change. Waiting: changes of its backlog. Merged: updates that it got together with a later one of the same object.",
    "Work queue": "Keys of objects that are to be reconciled. A ready key waits for a worker, a delayed one for its time.",
    "Reconciler": "The function of a controller, and its workers. A standby starts when it becomes the leader.",
    "gRPC channel": "The endpoints of a Service, and the share of the calls that each of them gets.",
    "Line": "Moving: changes or calls go along it now. Dotted: it waits for a leader. Red: the connection fails.",
  }],
  ["informer", "An informer", {
    "Objects": "Objects in its cache.",
    "Memory": "The memory of these objects, if the program measures it.",
    "Version": "The resource version that its cache has reached.",
    "Last event": "The time since the server sent something.",
  }],
  ["handlers", "Handlers of an informer", {
    "Handler": "The name that the program gave it.",
    "Backlog": "Changes for which it was not called yet.",
    "Oldest": "The time for which the oldest of them has waited.",
    "Changes": "All changes for it so far.",
    "Delivered": "Changes for which it was called.",
    "Merged": "Updates that it got together with a later one of the same object.",
    "Panics": "Calls in which it panicked.",
  }],
  ["lists", "Lists of an informer", {
    "When": "The time since the list.",
    "Reason": "Why the informer listed all objects instead of resuming its watch.",
    "Objects": "Objects in the list.",
    "Took": "The duration of the list.",
    "Version": "The resource version of the list.",
    "Message": "The error that led to the list.",
  }],
  ["queue", "A work queue", {
    "Ready": "Keys that wait for a free worker.",
    "Delayed": "Keys that wait for their time, such as that of a retry.",
    "In flight": "Keys that workers have.",
    "Failed": "Reconciles so far that returned an error.",
    "Added": "Keys that were added so far.",
  }],
  ["keys", "Keys of a work queue", {
    "Key": "The namespace and the name of the object.",
    "State": "A worker has it, or it waits for a retry or a delay.",
    "Time": "How long a worker has had it, or when its time comes.",
    "Attempts": "How often it was queued again after a failure.",
    "Queued because": "The changes that added the key.",
  }],
  ["channel", "A gRPC channel", {
    "Ready": "Endpoints with an open connection, and all endpoints.",
    "Calls": "Calls so far to the present endpoints.",
    "In flight": "Calls that have not ended.",
    "Failed": "Calls that failed.",
  }],
  ["endpoints", "Endpoints of a channel", {
    "Endpoint": "The pod, or the address.",
    "State": "The state of its connection. An ejected endpoint gets no calls for a while, because too many failed.",
    "Share": "Its share of the calls to the present endpoints.",
    "Calls": "Calls to it so far.",
    "In flight": "Calls to it that have not ended.",
    "Failed": "Calls to it that failed.",
    "Peak latency": "A latency that slow responses raise at once, and that decays from then on.",
    "Error": "The last error of its connection.",
  }],
];

/** Returns the explanation of a label in a part of the page, or null. */
export function explanation(part, label) {
  const found = PARTS.find(([name]) => name === part);
  return found?.[2][label] ?? null;
}

/** Returns the parts with their labels: [title, [label, explanation]…]. */
export function explanations() {
  return PARTS.map(([, title, labels]) => [title, Object.entries(labels)]);
}
