//! Whether the times of the configuration fit together.

use super::Config;

impl Config {
    /// Refuses times that do not fit together. The three deadlines count from the arrival of the request, and each must end
    /// before the next. Otherwise the wrong layer would answer, and a request that was given up could still write.
    pub(super) fn check_times(&self) -> Result<(), String> {
        let times =
            [("--lock-wait", self.lock_wait), ("--db-timeout", self.db_timeout), ("--http-timeout", self.http_timeout)];
        for [(inner, shorter), (outer, longer)] in [[times[0], times[1]], [times[1], times[2]]] {
            if shorter >= longer {
                return Err(format!("{inner} ({shorter:?}) must be less than {outer} ({longer:?})"));
            }
        }
        if self.lock_wait.saturating_add(self.business_time.max()) >= self.db_timeout {
            return Err(format!(
                "--lock-wait ({:?}) and --business-time ({}) together must be less than --db-timeout ({:?}): a purchase that waits so \
                 long for its lock has to do its business after that",
                self.lock_wait, self.business_time, self.db_timeout
            ));
        }
        if self.business_time.max() >= self.reservation_ttl {
            return Err(format!(
                "--business-time ({}) must be less than --reservation-ttl ({:?}): no reservation would live to be confirmed",
                self.business_time, self.reservation_ttl
            ));
        }
        if self.key_lifetime <= 2 * self.http_timeout {
            return Err(format!(
                "--key-lifetime ({:?}) must be more than twice --http-timeout ({:?}): a buyer who was told to ask again under \
                 the same key must find it",
                self.key_lifetime, self.http_timeout
            ));
        }
        Ok(())
    }
}
