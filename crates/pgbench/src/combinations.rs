//! Checks that options of pgbench fit together, by its rules and with its messages.

use super::options::Options;
use super::say::{Fault, fault};

impl Options {
    /// Check the options of initialization mode (-i).
    pub(super) fn check_init(&mut self) -> Result<(), Fault> {
        if self.has_benchmark_option {
            return Err(fault(
                "some of the specified options cannot be used in initialization (-i) mode",
            ));
        }
        if self.partitions == 0 && self.partition_method.is_some() {
            return Err(fault("--partition-method requires greater than zero --partitions"));
        }
        if self.no_vacuum {
            self.init_steps = self.init_steps.replace('v', " ");
        }
        if self.foreign_keys && !self.init_steps.contains('f') {
            self.init_steps.push('f');
        }
        Ok(())
    }

    /// Check the options of benchmarking mode; without -t and -T, set 10 transactions.
    pub(super) fn check_benchmark(&mut self) -> Result<(), Fault> {
        let refuse = |is_wrong: bool, message: &str| match is_wrong {
            true => Err(fault(message)),
            false => Ok(()),
        };
        refuse(
            self.has_init_option,
            "some of the specified options cannot be used in benchmarking mode",
        )?;
        refuse(
            self.transactions > 0 && self.duration_s > 0,
            "specify either a number of transactions (-t) or a duration (-T), not both",
        )?;
        if self.transactions == 0 && self.duration_s == 0 {
            self.transactions = 10;
        }
        let (samples, aggregates) = (self.sampling_rate > 0.0, self.aggregate_s > 0);
        refuse(
            samples && !self.log,
            "log sampling (--sampling-rate) is allowed only when logging transactions (-l)",
        )?;
        refuse(
            samples && aggregates,
            "log sampling (--sampling-rate) and aggregation (--aggregate-interval) cannot be used \
             at the same time",
        )?;
        refuse(
            aggregates && !self.log,
            "log aggregation is allowed only when actually logging transactions",
        )?;
        refuse(
            self.log_prefix.is_some() && !self.log,
            "log file prefix (--log-prefix) is allowed only when logging transactions (-l)",
        )?;
        let (duration, interval) = (self.duration_s, self.aggregate_s);
        if duration > 0 && interval > duration {
            return Err(fault(format!(
                "number of seconds for aggregation ({interval}) must not be higher than test \
                 duration ({duration})"
            )));
        }
        if duration > 0 && aggregates && duration % interval != 0 {
            return Err(fault(format!(
                "duration ({duration}) must be a multiple of aggregation interval ({interval})"
            )));
        }
        refuse(
            self.progress_timestamp && self.progress_s == 0,
            "--progress-timestamp is allowed only under --progress",
        )?;
        refuse(
            self.max_tries == 0 && self.latency_limit_ms == 0.0 && duration == 0,
            "an unlimited number of transaction tries can only be used with --latency-limit or a \
             duration (-T)",
        )
    }
}
