//! The costs of one phase: some changes, and the events of all watchers.

use std::time::Duration;

use super::watchers::Completeness;

/// The costs of the changes of one phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// The time from the first change to the last event.
    pub(super) seconds: f64,
    /// CPU seconds of the API server, of the proxy and of this process.
    pub(super) upstream_cpu: f64,
    pub(super) proxy_cpu: Option<f64>,
    pub(super) load_cpu: f64,
    /// The share of the time in which the processors of the machine were busy.
    pub(super) busy: f64,
    pub(super) p50: Option<Duration>,
    pub(super) p99: Option<Duration>,
    pub(super) completeness: Completeness,
}

/// The connections and watches of one phase at the API server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Upward {
    pub(super) connections: usize,
    pub(super) watches: u64,
}

/// The memory of a proxy, in MB, and its counters while the watchers are idle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProxyMemory {
    /// Resident memory with the pods, and no watchers.
    pub(super) ready_mb: f64,
    /// Resident memory with idle watchers.
    pub(super) idle_mb: f64,
    /// Resident memory after the changes.
    pub(super) end_mb: f64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// The watches that are answered from memory, and the requests that were passed on since the
    /// watchers connected.
    pub(super) watches: u64,
    pub(super) forwarded: u64,
    /// The reviews of the watchers' tokens and rights, while they were open.
    pub(super) reviews: u64,
}

/// The measurements with one number of watchers.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub(super) watchers: usize,
    pub(super) direct: Costs,
    pub(super) direct_upward: Upward,
    pub(super) through: Costs,
    pub(super) through_upward: Upward,
    pub(super) memory: ProxyMemory,
}

/// The measurements without watchers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor {
    /// CPU seconds of the API server for the same changes, and the time that they took.
    pub(super) writes_cpu: f64,
    pub(super) writes_seconds: f64,
    /// CPU seconds of the API server in each second without requests.
    pub(super) idle_cpu: f64,
    /// The resident memory of a proxy without a cache, in MB.
    pub(super) empty_mb: f64,
    /// The KB of heap of client-go's cache for each pod, if it could be measured.
    pub(super) client_go_kb: Option<f64>,
}

impl Comparison {
    /// Returns the CPU time of the API server with the proxy, as a multiple of that without it.
    pub(super) fn upstream_ratio(&self) -> Option<f64> {
        (self.direct.upstream_cpu > 0.0).then(|| self.through.upstream_cpu / self.direct.upstream_cpu)
    }

    /// Returns the same ratio without the CPU time of the writes, and of what the API server does
    /// without clients, which counts for longer in a phase that takes longer. `None` if one of the
    /// rests is lost in the differences between two measurements: it is not zero then.
    pub(super) fn ratio_without_writes(&self, floor: Floor) -> Option<f64> {
        let (direct, through) = (self.direct.without_writes(floor)?, self.through.without_writes(floor)?);
        Some(through / direct)
    }

    /// Returns the KB of resident memory of each idle watcher.
    pub(super) fn kb_per_watcher(&self) -> f64 {
        (self.memory.idle_mb - self.memory.ready_mb) * 1e3 / self.watchers as f64
    }

    /// Returns the KB of resident memory of each pod.
    pub(super) fn kb_per_object(&self, floor: Floor) -> f64 {
        (self.memory.ready_mb - floor.empty_mb) * 1e3 / self.memory.objects.max(1) as f64
    }

    /// Returns the KB of resident memory of each pod, as a multiple of client-go's heap for it.
    pub(super) fn memory_of_client_go(&self, floor: Floor) -> Option<f64> {
        floor.client_go_kb.filter(|it| *it > 0.0).map(|it| self.kb_per_object(floor) / it)
    }

    /// Returns the milliseconds by which the 99th percentile of the latency is longer with the
    /// proxy.
    pub(super) fn added_p99_ms(&self) -> Option<f64> {
        Some(ms(self.through.p99?) - ms(self.direct.p99?))
    }
}

impl Costs {
    /// Returns the CPU seconds of the API server for the watches alone, if they can be measured.
    pub(super) fn without_writes(&self, floor: Floor) -> Option<f64> {
        let writes = floor.writes_cpu - floor.idle_cpu * floor.writes_seconds;
        let cpu = self.upstream_cpu - floor.idle_cpu * self.seconds - writes;
        (cpu > 0.0).then_some(cpu)
    }
}

/// Returns a duration in milliseconds.
pub(super) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
