//! The flags of a fault rule.

use dogwatch_apiserver::faults::{Delay, Rule, RuleError, Scope};

use crate::number;

/// The requests that a rule is for. All conditions must hold; without any, all requests match.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Requests")]
#[group(id = "scope")]
pub(super) struct ScopeFlags {
    /// Only this resource: its plural name, or plural.group, for example pods or deployments.apps.
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Only requests for this namespace. Lists and watches of all namespaces do not match.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Only the object of this name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only this subresource, for example status. The empty one, --subresource=, is the object
    /// itself.
    #[arg(long, value_name = "PART")]
    subresource: Option<String>,
    /// Only requests of this user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// A rule as flags.
#[derive(Debug, clap::Args)]
#[group(id = "rule")]
pub(super) struct RuleFlags {
    /// Only requests with this verb; repeat it, or separate several by commas.
    #[arg(
        long = "verb",
        value_name = "VERB",
        value_delimiter = ',',
        help_heading = "Requests",
        value_parser = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
    )]
    verbs: Vec<String>,
    #[command(flatten)]
    scope: ScopeFlags,
    #[command(flatten)]
    frequency: FrequencyFlags,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    watch: WatchFlags,
}

/// The frequency of a rule.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How often")]
#[group(id = "frequency")]
struct FrequencyFlags {
    /// Let the first N matches through.
    #[arg(long, value_name = "N", value_parser = number::any())]
    after: Option<u64>,
    /// Fire at most N times.
    #[arg(long, value_name = "N", value_parser = number::whole::<u64>(1..=u64::MAX))]
    times: Option<u64>,
    /// Fire with this probability, from 0 to 1.
    #[arg(long, value_name = "P", value_parser = number::probability)]
    probability: Option<f64>,
    /// The seed of everything random about the rule: the same requests meet the same faults.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::any())]
    seed: u64,
}

/// Faults of requests.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Faults of requests")]
#[group(id = "request_fault")]
struct RequestFlags {
    /// Delay requests: 250ms, or 10ms..2s for a random time.
    #[arg(long, value_name = "TIME")]
    delay: Option<Delay>,
    /// Reject requests with this status code.
    #[arg(long, value_name = "CODE", value_parser = number::whole::<u16>(400..=599), conflicts_with = "reset")]
    refuse: Option<u16>,
    /// The reason of the error, for example Conflict. Defaults to the one of the status code.
    #[arg(long, value_name = "REASON", requires = "refuse")]
    reason: Option<String>,
    /// The message of the error.
    #[arg(long, value_name = "TEXT", requires = "refuse")]
    message: Option<String>,
    /// The Retry-After of the error; 0 omits it. Defaults to 1 with --refuse 429.
    #[arg(long, value_name = "SECONDS", value_parser = number::whole::<u32>(0..=u32::MAX.into()), requires = "refuse")]
    retry_after: Option<u32>,
    /// Cut the connection before the request is carried out, or after it instead of responding.
    #[arg(long, value_name = "WHEN", value_parser = ["before", "after"])]
    reset: Option<String>,
}

/// Faults of watches.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Faults of watches")]
#[group(id = "watch_fault", conflicts_with = "request_fault")]
struct WatchFlags {
    /// Deliver every event later by this time.
    #[arg(long, value_name = "TIME")]
    lag: Option<Delay>,
    /// Deliver nothing while the rule exists.
    #[arg(long)]
    pause: bool,
    /// End watches after N events, as if they had timed out.
    #[arg(long, value_name = "N", value_parser = number::any(), conflicts_with = "cut_after")]
    drop_after: Option<u64>,
    /// Cut the connections of watches after N events.
    #[arg(long, value_name = "N", value_parser = number::any())]
    cut_after: Option<u64>,
    /// Deliver in pieces of this many bytes.
    #[arg(long, value_name = "BYTES", value_parser = number::whole::<u64>(1..=u64::MAX))]
    split: Option<u64>,
    /// Collect events for this time, and deliver them in one write.
    #[arg(long, value_name = "TIME")]
    coalesce: Option<Delay>,
}

impl ScopeFlags {
    /// Returns the scope for watches that are open.
    pub(super) fn scope(&self) -> Scope {
        let mut scope = Scope::default();
        scope.resource.clone_from(&self.resource);
        scope.namespace.clone_from(&self.namespace);
        scope.name.clone_from(&self.name);
        scope.part.clone_from(&self.subresource);
        scope.user.clone_from(&self.user);
        scope
    }
}

impl RuleFlags {
    /// Returns the rule.
    ///
    /// # Errors
    /// Returns an error if flags do not go together, as the server would.
    pub(super) fn rule(&self) -> Result<Rule, RuleError> {
        let mut scope = self.scope.scope();
        scope.verbs.clone_from(&self.verbs);
        let FrequencyFlags { after, times, probability, seed } = self.frequency;
        let mut rule = Rule::within(scope).after(after.unwrap_or(0)).seed(seed);
        rule = times.into_iter().fold(rule, Rule::times);
        rule = probability.into_iter().fold(rule, |rule, it| rule.probability(it, seed));
        let rule = self.watch.add_to(self.request.add_to(rule));
        // The server checks the same: a mistake is reported before a server is needed.
        let json = serde_json::to_vec(&rule).unwrap_or_default();
        Rule::from_json(&json)
    }
}

impl RequestFlags {
    fn add_to(&self, mut rule: Rule) -> Rule {
        rule = self.delay.into_iter().fold(rule, |rule, it| rule.delay(it));
        rule = self.refuse.into_iter().fold(rule, Rule::refuse);
        rule = self.reason.iter().fold(rule, |rule, it| rule.reason(it));
        rule = self.message.iter().fold(rule, |rule, it| rule.message(it));
        rule = self.retry_after.into_iter().fold(rule, Rule::retry_after);
        match self.reset.as_deref() {
            Some("before") => rule.reset_before(),
            Some(_) => rule.reset_after(),
            None => rule,
        }
    }
}

impl WatchFlags {
    fn add_to(&self, mut rule: Rule) -> Rule {
        rule = self.lag.into_iter().fold(rule, |rule, it| rule.lag(it));
        if self.pause {
            rule = rule.pause();
        }
        rule = self.drop_after.into_iter().fold(rule, Rule::drop_after);
        rule = self.cut_after.into_iter().fold(rule, Rule::cut_after);
        let split = self.split.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        rule = split.into_iter().fold(rule, Rule::split);
        self.coalesce.into_iter().fold(rule, |rule, it| rule.coalesce(it))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        rule: RuleFlags,
    }

    fn parse(flags: &str) -> Result<Rule, String> {
        let flags = ["add"].into_iter().chain(flags.split_whitespace());
        let flags = Flags::try_parse_from(flags).map_err(|it| it.to_string())?;
        flags.rule.rule().map_err(|it| it.to_string())
    }

    #[test]
    fn every_part_of_a_rule_has_a_flag() {
        for (flags, rule) in [
            ("", Rule::on_everything()),
            (
                "--verb list --resource pods --times 2 --refuse 429 --retry-after 1",
                Rule::on("list").resource("pods").times(2).refuse(429).retry_after(1),
            ),
            (
                "--verb create,update --user bob --probability 0.5 --seed 7 --delay 1s",
                Rule::on("create")
                    .or("update")
                    .user("bob")
                    .probability(0.5, 7)
                    .delay(std::time::Duration::from_secs(1)),
            ),
            (
                "-n a --name b --subresource status --after 3 --reset after",
                Rule::on_everything().namespace("a").name("b").part("status").after(3).reset_after(),
            ),
            ("--reset before", Rule::on_everything().reset_before()),
            (
                "--refuse 418 --reason Teapot --message short",
                Rule::on_everything().refuse(418).reason("Teapot").message("short"),
            ),
            ("--verb watch --cut-after 4 --split 7 --pause", Rule::on("watch").cut_after(4).split(7).pause()),
            ("--drop-after 0", Rule::on_everything().drop_after(0)),
        ] {
            assert_eq!(parse(flags), Ok(rule), "{flags}");
        }
        assert!(parse("--lag 10ms..2s --coalesce 1s").is_ok());
    }

    #[test]
    fn flags_that_do_not_go_together_are_rejected() {
        for flags in [
            "--verb lst",
            "--times 0",
            "--refuse 200",
            "--refuse 500 --reset before",
            "--message hello",
            "--probability 1.5",
            "--delay soon",
            "--split 0",
            "--lag 1s --delay 1s",
            "--drop-after 1 --cut-after 1",
            "--verb get --pause",
        ] {
            assert!(parse(flags).is_err(), "{flags}");
        }
    }
}
