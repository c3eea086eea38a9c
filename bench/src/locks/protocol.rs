//! The protocol between the orchestrator and its workers. A request is one line of words, and its answer is another.
//!
//! A worker says `ready` and what it is when it has started. `README.md` lists the requests.

use std::collections::BTreeMap;
use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use bench::Error;

/// The lock that a worker contends for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contest {
    /// The name of the implementation.
    pub(crate) implementation: String,
    /// The path of the lock.
    pub(crate) path: String,
    /// Number of contenders. In an open load, the upper bound of the outstanding acquires.
    pub(crate) contenders: u32,
    /// The sessions that they share: contender `i` has session `i % sessions`.
    pub(crate) sessions: u32,
    /// The address of ZooKeeper.
    pub(crate) connect_string: String,
}

/// A request to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Open the sessions and let every contender acquire and release without a pause, until `Stop`.
    Run(Contest),
    /// Tell how far the contenders have come.
    Progress,
    /// Count the cycles that finish within a window from now on, and time them.
    Measure {
        /// The length of the window.
        window_ms: u64,
    },
    /// Let every contender finish its cycle, cut off those that have not in time, and close the sessions.
    Stop {
        /// Time limit for the last cycles.
        within_ms: u64,
    },
    /// Hold the lock and let the contenders queue behind, each for one cycle.
    Queue(Contest),
    /// Release the lock that `Queue` holds, wait until the queue has drained, and close the sessions.
    Drain {
        /// Time limit for the queue.
        within_ms: u64,
    },
    /// Open the sessions, put an open load on the lock, and close the sessions.
    Arrive(OpenLoad),
}

/// Acquires that arrive at a rate, whether or not earlier ones were granted. Each is released as soon as it is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenLoad {
    /// The lock, the most acquires outstanding, and the sessions: arrival `i` has session `i % sessions`.
    pub(crate) contest: Contest,
    /// The mean rate.
    pub(crate) rate_per_s: u32,
    /// Arrivals before those that are timed.
    pub(crate) untimed: u32,
    /// Arrivals that are timed.
    pub(crate) timed: u32,
    /// Decides the gaps.
    pub(crate) seed: u64,
    /// The time for the outstanding acquires after the last arrival.
    pub(crate) within_ms: u64,
}

/// A worker's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To `Run` and `Queue`: the contenders have been started.
    Running,
    /// To `Progress`.
    Progress(ContestProgress),
    /// To `Measure`.
    Measured(Measured),
    /// To `Stop`.
    Stopped {
        /// Contenders that were cut off.
        cut_off: u32,
    },
    /// To `Drain`.
    Drained(Drained),
    /// To `Arrive`.
    Arrived(Arrived),
    /// To any request: it failed, or a contender did.
    Failed(String),
}

/// The progress of the contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContestProgress {
    /// Contenders that have called acquire.
    pub(crate) begun: u32,
    /// Cycles that have finished since the start.
    pub(crate) finished: u64,
}

/// The cycles that finished within a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// The real length of the window.
    pub(crate) elapsed_us: u64,
    /// The number of cycles by their time in microseconds, from the call of acquire to the confirmed release.
    pub(crate) times_us: BTreeMap<u64, u64>,
}

/// The waits of the timed arrivals of an open load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Acquires that arrived.
    pub(crate) arrived: u64,
    /// Arrivals that found the most acquires outstanding. They did not queue.
    pub(crate) dropped: u64,
    /// The time from the first timed arrival to the last.
    pub(crate) elapsed_us: u64,
    /// The number of acquires by their wait in microseconds, from the intended arrival to the grant.
    pub(crate) waits_us: BTreeMap<u64, u64>,
}

/// A queue that was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Waiters that have held the lock and released it.
    pub(crate) served: u32,
    /// Different fencing tokens among their grants.
    pub(crate) tokens: u32,
    /// From the release of the first holder to the release of the last waiter.
    pub(crate) elapsed_us: u64,
    /// Requests that the sessions sent meanwhile.
    pub(crate) requests: u64,
    /// Watch notifications that they received.
    pub(crate) notifications: u64,
    /// Bytes that they sent and received, without pings.
    pub(crate) bytes: u64,
}

impl Measured {
    /// Returns the number of cycles that finished.
    pub(crate) fn cycles(&self) -> u64 {
        self.times_us.values().sum()
    }
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { implementation, path, contenders, sessions, connect_string } = self;
        write!(f, "{implementation} {path} {contenders} {sessions} {connect_string}")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(contest) => write!(f, "run {contest}"),
            Self::Progress => write!(f, "progress"),
            Self::Measure { window_ms } => write!(f, "measure {window_ms}"),
            Self::Stop { within_ms } => write!(f, "stop {within_ms}"),
            Self::Queue(contest) => write!(f, "queue {contest}"),
            Self::Drain { within_ms } => write!(f, "drain {within_ms}"),
            Self::Arrive(OpenLoad { contest, rate_per_s, untimed, timed, seed, within_ms }) => {
                write!(f, "arrive {contest} {rate_per_s} {untimed} {timed} {seed} {within_ms}")
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => write!(f, "running"),
            Self::Progress(ContestProgress { begun, finished }) => write!(f, "progress {begun} {finished}"),
            Self::Measured(Measured { elapsed_us, times_us }) => {
                write!(f, "measured {elapsed_us}")?;
                write_times(f, times_us)
            }
            Self::Stopped { cut_off } => write!(f, "stopped {cut_off}"),
            Self::Drained(Drained { served, tokens, elapsed_us, requests, notifications, bytes }) => {
                write!(f, "drained {served} {tokens} {elapsed_us} {requests} {notifications} {bytes}")
            }
            Self::Arrived(Arrived { arrived, dropped, elapsed_us, waits_us }) => {
                write!(f, "arrived {arrived} {dropped} {elapsed_us}")?;
                write_times(f, waits_us)
            }
            // The error of a library may have several lines. An answer has one.
            Self::Failed(reason) => write!(f, "error {}", reason.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
}

fn write_times(f: &mut fmt::Formatter<'_>, times_us: &BTreeMap<u64, u64>) -> fmt::Result {
    times_us.iter().try_for_each(|(us, count)| write!(f, " {us}:{count}"))
}

impl FromStr for Request {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        let parse = |words: &mut SplitWhitespace<'_>| {
            Some(match words.next()? {
                "run" => Self::Run(contest(words)?),
                "progress" => Self::Progress,
                "measure" => Self::Measure { window_ms: next(words)? },
                "stop" => Self::Stop { within_ms: next(words)? },
                "queue" => Self::Queue(contest(words)?),
                "drain" => Self::Drain { within_ms: next(words)? },
                "arrive" => Self::Arrive(OpenLoad {
                    contest: contest(words)?,
                    rate_per_s: next(words)?,
                    untimed: next(words)?,
                    timed: next(words)?,
                    seed: next(words)?,
                    within_ms: next(words)?,
                }),
                _ => return None,
            })
        };
        whole_line(line, parse)
    }
}

impl FromStr for Answer {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        if let Some(reason) = line.strip_prefix("error ") {
            return Ok(Self::Failed(reason.to_owned()));
        }
        let parse = |words: &mut SplitWhitespace<'_>| {
            Some(match words.next()? {
                "running" => Self::Running,
                "progress" => Self::Progress(ContestProgress { begun: next(words)?, finished: next(words)? }),
                "measured" => Self::Measured(Measured { elapsed_us: next(words)?, times_us: times(words)? }),
                "stopped" => Self::Stopped { cut_off: next(words)? },
                "drained" => Self::Drained(Drained {
                    served: next(words)?,
                    tokens: next(words)?,
                    elapsed_us: next(words)?,
                    requests: next(words)?,
                    notifications: next(words)?,
                    bytes: next(words)?,
                }),
                "arrived" => Self::Arrived(Arrived {
                    arrived: next(words)?,
                    dropped: next(words)?,
                    elapsed_us: next(words)?,
                    waits_us: times(words)?,
                }),
                _ => return None,
            })
        };
        whole_line(line, parse)
    }
}

/// Returns what `parse` makes of a line. `parse` must take all words of it.
fn whole_line<T>(line: &str, parse: impl FnOnce(&mut SplitWhitespace<'_>) -> Option<T>) -> Result<T, Error> {
    let mut words = line.split_whitespace();
    let parsed = parse(&mut words).filter(|_| words.next().is_none());
    parsed.ok_or_else(|| Error::Failed(format!("not understood: {:?}", line.chars().take(200).collect::<String>())))
}

fn contest(words: &mut SplitWhitespace<'_>) -> Option<Contest> {
    Some(Contest {
        implementation: next(words)?,
        path: next(words)?,
        contenders: next(words)?,
        sessions: next(words)?,
        connect_string: next(words)?,
    })
}

/// Reads the times to the end of the line.
fn times(words: &mut SplitWhitespace<'_>) -> Option<BTreeMap<u64, u64>> {
    let times = words.map(|word| {
        let (us, count) = word.split_once(':')?;
        Some((us.parse().ok()?, count.parse().ok()?))
    });
    times.collect()
}

fn next<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contest() -> Contest {
        Contest {
            implementation: "mutex".to_owned(),
            path: "/rivals/7".to_owned(),
            contenders: 30,
            sessions: 3,
            connect_string: "127.0.0.1:2181".to_owned(),
        }
    }

    #[test]
    fn every_request_is_read_as_it_was_written() {
        let open_load =
            OpenLoad { contest: contest(), rate_per_s: 500, untimed: 250, timed: 1000, seed: 7, within_ms: 9 };
        let requests = [
            (Request::Run(contest()), "run mutex /rivals/7 30 3 127.0.0.1:2181"),
            (Request::Progress, "progress"),
            (Request::Measure { window_ms: 2000 }, "measure 2000"),
            (Request::Stop { within_ms: 5000 }, "stop 5000"),
            (Request::Queue(contest()), "queue mutex /rivals/7 30 3 127.0.0.1:2181"),
            (Request::Drain { within_ms: 9 }, "drain 9"),
            (Request::Arrive(open_load), "arrive mutex /rivals/7 30 3 127.0.0.1:2181 500 250 1000 7 9"),
        ];
        for (request, line) in requests {
            assert_eq!(request.to_string(), line);
            assert_eq!(line.parse::<Request>().unwrap(), request);
        }
    }

    #[test]
    fn every_answer_is_read_as_it_was_written() {
        let times_us = BTreeMap::from([(180, 40), (1_200, 1)]);
        let arrived = Arrived { arrived: 50, dropped: 9, elapsed_us: 2_000_000, waits_us: times_us.clone() };
        let drained =
            Drained { served: 50, tokens: 50, elapsed_us: 1_000, requests: 200, notifications: 49, bytes: 9_000 };
        let answers = [
            (Answer::Running, "running"),
            (Answer::Progress(ContestProgress { begun: 30, finished: 1_234 }), "progress 30 1234"),
            (Answer::Measured(Measured { elapsed_us: 200_113, times_us }), "measured 200113 180:40 1200:1"),
            (Answer::Measured(Measured { elapsed_us: 5, ..Measured::default() }), "measured 5"),
            (Answer::Stopped { cut_off: 2 }, "stopped 2"),
            (Answer::Drained(drained), "drained 50 50 1000 200 49 9000"),
            (Answer::Arrived(arrived), "arrived 50 9 2000000 180:40 1200:1"),
            (Answer::Failed("two held at once".to_owned()), "error two held at once"),
        ];
        for (answer, line) in answers {
            assert_eq!(answer.to_string(), line);
            assert_eq!(line.parse::<Answer>().unwrap(), answer);
        }
    }

    #[test]
    fn a_reason_of_several_lines_becomes_one() {
        assert_eq!(Answer::Failed("no\n  connection".to_owned()).to_string(), "error no connection");
    }

    #[test]
    fn a_line_with_too_few_or_too_many_words_is_not_understood() {
        for line in ["", "run", "run mutex /a 1 1", "run mutex /a x 1 b", "progress 1", "measure", "measure 1 2", "go"]
        {
            assert!(line.parse::<Request>().is_err(), "{line:?}");
        }
        for line in [
            "",
            "running late",
            "progress 1",
            "measured",
            "measured 1 2",
            "measured 1 2:x",
            "drained 1 2",
            "arrived 1 2",
        ] {
            assert!(line.parse::<Answer>().is_err(), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_measurement_survives_the_line(
            elapsed_us: u64,
            times_us in prop::collection::btree_map(any::<u64>(), 1_u64..1_000_000, 0..200),
        ) {
            let measured = Measured { elapsed_us, times_us };
            let Ok(Answer::Measured(read)) = Answer::Measured(measured.clone()).to_string().parse() else {
                return Err(TestCaseError::fail("not read as a measurement"));
            };
            prop_assert_eq!(read, measured);
        }

        #[test]
        fn no_line_is_too_strange_to_be_refused(line in ".*") {
            let _ = line.parse::<Request>();
            let _ = line.parse::<Answer>();
        }
    }
}
