//! How faults strike links and ZooKeeper servers.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use testbed::{Direction, Ensemble, Error, LinkFault, Proxy};

use crate::fault::Harm;
use crate::forecast::ComingFault;

/// The longest that a slow link holds a byte in each direction.
const SLOWEST: Duration = Duration::from_millis(400);
/// The smallest and the largest share of replies that are lost.
const LOST: [f64; 2] = [0.01, 0.3];
/// The fewest and the most bytes a second of a connection of a narrow link.
const NARROW: [f64; 2] = [500.0, 50_000.0];
/// The shortest and the longest of the session timeouts that a server grants after a restart with other settings. Both are shorter than
/// what a campaign's clients ask for.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(700), Duration::from_millis(2500)];
/// The longest step of a clock, in either direction.
const STEP_MAX: Duration = Duration::from_secs(3600);

/// Lets a fault of a link begin. [`Proxy::heal`] ends it.
pub fn disturb(proxy: &Proxy, coming: &ComingFault) {
    match coming.fault.harm {
        Harm::Cut => proxy.cut(),
        Harm::Silent => proxy.blackhole(),
        Harm::RequestsHeld => proxy.silence(Direction::ToServer),
        Harm::RepliesHeld => proxy.silence(Direction::FromServer),
        Harm::RepliesLost => proxy.swallow_replies(),
        Harm::Resets => proxy.lose_replies(LOST[0] * (LOST[1] / LOST[0]).powf(coming.strength)),
        Harm::Slow => proxy.delay(SLOWEST.mul_f64(coming.strength)),
        Harm::Jittery => proxy.jitter(SLOWEST.mul_f64(coming.strength)),
        Harm::Narrow => proxy.limit(narrow(coming.strength)),
        Harm::SessionsReplaced => {
            proxy.replace_sessions();
            proxy.cut();
        }
        _ => {
            proxy.refuse();
            proxy.cut();
        }
    }
}

/// Lets a fault of ZooKeeper servers begin.
///
/// # Errors
///
/// Why it could not be made.
pub async fn begin_at_ensemble(ensemble: &mut Ensemble, coming: &ComingFault) -> Result<(), Error> {
    for server in coming.servers(ensemble.size()) {
        match coming.fault.harm {
            Harm::Frozen => ensemble.pause(server)?,
            Harm::Isolated => ensemble.isolate(server, LinkFault::Cut)?,
            Harm::Silenced => ensemble.isolate(server, LinkFault::Blackhole)?,
            Harm::HalfOpen => ensemble.isolate(server, LinkFault::HalfOpen)?,
            Harm::Slowed => ensemble.delay(server, SLOWEST.mul_f64(coming.strength))?,
            Harm::Stopped => ensemble.stop_server(server).await?,
            Harm::DiskFull => ensemble.fill_disk(server)?,
            Harm::ClockStepped => ensemble.step_clock(server, ahead(coming.strength))?,
            Harm::OtherTimeouts => {
                let longest = TIMEOUTS[0] + (TIMEOUTS[1] - TIMEOUTS[0]).mul_f64(coming.strength);
                restart(ensemble, server, longest..=longest).await?;
            }
            _ => ensemble.kill_server(server).await?,
        }
    }
    Ok(())
}

/// Ends a fault of ZooKeeper servers. They grant these session timeouts again if it has changed them. Does not wait until they serve.
///
/// # Errors
///
/// Why it could not be ended.
pub async fn end_at_ensemble(
    ensemble: &mut Ensemble,
    coming: &ComingFault,
    timeouts: RangeInclusive<Duration>,
) -> Result<(), Error> {
    for server in coming.servers(ensemble.size()) {
        match coming.fault.harm {
            Harm::Frozen => ensemble.resume(server)?,
            Harm::ClockStepped => ensemble.step_clock(server, 0)?,
            Harm::Isolated | Harm::Silenced | Harm::HalfOpen | Harm::Slowed => ensemble.heal(server)?,
            Harm::OtherTimeouts => restart(ensemble, server, timeouts.clone()).await?,
            _ => ensemble.launch_server(server).await?,
        }
    }
    Ok(())
}

async fn restart(ensemble: &mut Ensemble, server: usize, timeouts: RangeInclusive<Duration>) -> Result<(), Error> {
    ensemble.set_session_timeouts(server, timeouts)?;
    ensemble.stop_server(server).await?;
    ensemble.launch_server(server).await
}

/// Returns by how many seconds a clock is ahead: between an hour behind and an hour ahead.
fn ahead(strength: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "it is between two small bounds")]
    let ahead = ((strength * 2.0 - 1.0) * STEP_MAX.as_secs_f64()) as i64;
    ahead
}

/// Returns the bytes a second of a narrow link: the stronger the fault, the fewer.
fn narrow(strength: f64) -> Option<NonZeroU32> {
    let [fewest, most] = NARROW;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between two small bounds")]
    NonZeroU32::new((most * (fewest / most).powf(strength)) as u32)
}
