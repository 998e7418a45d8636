//! The parts of the pages that have to be drawn, and the numbers that have to change: each is a
//! name and an expression in the page. A part is there if its expression is true, a number moves if
//! its expression gets another value.

/// The parts of the page of the program.
pub(super) const PARTS: [(&str, &str); 13] = [
    ("the page is live", "document.querySelector('#link').dataset.state === 'live'"),
    ("the totals have numbers", "document.querySelectorAll('#totals li').length >= 6"),
    ("all informers are synced", "/^3 of 3$/.test(document.querySelector('#totals .big').textContent)"),
    ("the server is drawn", "document.querySelector('.node.server').offsetHeight > 0"),
    ("each informer has a lane", "document.querySelectorAll('.lane:not(.grpc) .reflector').length === 3"),
    ("handlers are drawn", "document.querySelectorAll('.node.handler').length === 3"),
    ("work queues are drawn", "document.querySelectorAll('.node.work').length === 3"),
    ("reconcilers are drawn", "document.querySelectorAll('.node.reconciler:not([hidden])').length === 2"),
    ("endpoints are drawn", "document.querySelectorAll('.node.endpoint').length === 4"),
    (
        "lists are shown with their reasons",
        "[...document.querySelectorAll('#informers td[data-title=Reason]')].some(it => it.textContent === 'start')",
    ),
    ("keys are shown", "document.querySelectorAll('#queues tbody tr').length > 0"),
    ("endpoints have shares", "/\\d+ %/.test(document.querySelector('#channels td.share').textContent)"),
    (
        "it is said that latencies are not measured",
        "/^Latencies are not measured/.test(document.querySelector('#channels .latency').textContent)",
    ),
];

/// The numbers of the page of the program.
pub(super) const MOVEMENT: [(&str, &str); 3] = [
    ("the version of a cache changes", "document.querySelector('.node.cache').textContent"),
    ("the sparkline of events changes", "document.querySelector('#informers .spark .line').outerHTML"),
    (
        "the number of calls changes",
        "document.querySelector('#channels dd:nth-of-type(1)').parentElement.parentElement.textContent",
    ),
];

/// The parts of the demo's page after its last act.
pub(super) const DEMO_PARTS: [(&str, &str); 22] = [
    ("the page is live", "document.querySelector('#link').dataset.state === 'live'"),
    ("the faults have buttons", "document.querySelectorAll('#actions button').length === 4"),
    ("the totals have numbers", "document.querySelectorAll('#totals li').length === 7"),
    ("all informers are synced", "/^5 of 5$/.test(document.querySelector('#totals .big').textContent)"),
    (
        "each total has a plot, except that of the informers",
        "document.querySelectorAll('#totals .line[d^=M]').length === 6",
    ),
    ("the server is drawn", "document.querySelector('.node.server').offsetHeight > 0"),
    ("each informer has a lane", "document.querySelectorAll('.lane:not(.grpc) .reflector').length === 5"),
    ("the delta queues are drawn", "document.querySelectorAll('.lane:not(.grpc) .node.queue').length === 5"),
    ("the pods are cached", "/3 objects/.test(document.querySelector('.node.cache').textContent)"),
    (
        "each cache shows the bytes that it holds, and its version",
        "[...document.querySelectorAll('.node.cache')].every(it => /, [\\d.]+ KBversion \\d+$/.test(it.textContent))",
    ),
    (
        "the handlers have names",
        "[...document.querySelectorAll('.node.handler .name')].map(it => it.textContent).sort().join()\
         === 'gRPC servers,ingress-manager,ingress-manager,printed changes'",
    ),
    ("work queues are drawn", "document.querySelectorAll('.node.work').length === 2"),
    ("reconcilers are drawn", "document.querySelectorAll('.node.reconciler:not([hidden])').length === 2"),
    (
        "the managers have their identities",
        "[...document.querySelectorAll('.node.reconciler .owner')].map(it => it.textContent).sort().join()\
         === 'manager-a,manager-b'",
    ),
    (
        "one manager leads, and one is a standby",
        "[...document.querySelectorAll('.node.reconciler')].filter(it => /leader/.test(it.textContent)).length === 1\
         && [...document.querySelectorAll('.node.reconciler')].filter(it => /standby/.test(it.textContent)).length === 1",
    ),
    (
        "the list after the expired history is shown with its reason",
        "[...document.querySelectorAll('#informers td[data-title=Reason]')]\
         .some(it => it.textContent === 'history expired (410)')",
    ),
    (
        "the backlogs of handlers are shown",
        "[...document.querySelectorAll('#informers td[data-title=Backlog]')].length >= 2",
    ),
    (
        "the keys of the queue are shown, or that there are none",
        "document.querySelectorAll('#queues tbody tr').length > 0\
         || /^No key/.test(document.querySelector('#queues .none:not([hidden])').textContent)",
    ),
    (
        "events are received",
        "/^([1-9]|0\\.[1-9])/.test([...document.querySelectorAll('#totals li')]\
         .find(it => /^Events/.test(it.textContent)).querySelector('.big').textContent)",
    ),
    ("each pod is an endpoint", "document.querySelectorAll('.node.endpoint').length === 3"),
    (
        "calls are made to each endpoint",
        "[...document.querySelectorAll('.node.endpoint')].every(it => /ready.*\\d %.*[1-9]\\d*\\/s/.test(it.textContent))",
    ),
    (
        "the table of endpoints has shares",
        "[...document.querySelectorAll('#channels td.share')].filter(it => /^\\d+ %$/.test(it.textContent)).length === 3",
    ),
];

/// The edges of the demo's pipeline, which are drawn on large screens: those of the leader's
/// handlers to its own queue, and none of the standby's, which is connected to its caches.
pub(super) const DEMO_EDGES: [(&str, &str); 2] = [
    ("there is an edge for each connection", "document.querySelectorAll('#edges path').length === 28"),
    ("the standby waits", "document.querySelectorAll('#edges .idle').length === 3"),
];

/// The numbers of the demo's page.
pub(super) const DEMO_MOVEMENT: [(&str, &str); 4] = [
    (
        "the version of a cache changes",
        "[...document.querySelectorAll('.node.cache')].map(it => it.textContent)",
    ),
    ("the plots change", "[...document.querySelectorAll('#totals .line')].map(it => it.outerHTML)"),
    (
        "keys are added to the queues",
        "[...document.querySelectorAll('#queues .line')].map(it => it.textContent)",
    ),
    ("calls are counted", "document.querySelector('#channels .facts').textContent"),
];
