//! A scene: one plan under one schedule.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use campaign::{Run, Subject};
use clap::ValueEnum;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use shuttle::future::block_on;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::buyer::buy;
use crate::clock::NEVER;
use crate::instance::Instance;
use crate::notes::{Notes, SERVED, SOUND, Sight};
use crate::plan::{LAST_TICK, Plan, SKUS};
use crate::scheduler::Swarm;
use crate::world::World;

/// More than any scene takes that ends.
const STEPS_MAX: usize = 50_000;

/// How many instances sell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scene {
    /// One instance, whose batches take turns with the next sales
    One,
    /// Several instances: one owns the SKUs, and the others hand their batches over
    Several,
}

impl Subject for Scene {
    fn sights(&self) -> &'static [&'static str] {
        match self {
            // The last ones are of the link.
            Self::One => &Sight::NAMES[..Sight::ToldElsewhere as usize],
            Self::Several => Sight::NAMES,
        }
    }

    fn patience(&self) -> (&'static str, u64) {
        ("steps of a run", STEPS_MAX as u64)
    }

    fn run(&self, seed: u64, mut tell: Option<&mut dyn FnMut(String)>) -> Run {
        let notes = Arc::new(Notes::new(tell.is_some()));
        let steps = Rc::new(Cell::new(0));
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        config.silence_warnings = true;
        let runner = Runner::new(Swarm::new(seed, Rc::clone(&steps)), config);
        let of_scene = Arc::clone(&notes);
        let is_one = *self == Self::One;
        let scene = move || {
            let mut draws = ChaCha8Rng::seed_from_u64(seed);
            let instances = if is_one { 1 } else { draws.random_range(2..=3) };
            let plan = Plan::draw(instances, &mut draws);
            of_scene.tell(|| format!("{plan:?}"));
            let world = World::new(plan, draws, Arc::clone(&of_scene));
            block_on(play(Arc::new(world)));
        };
        let ended = panic::catch_unwind(AssertUnwindSafe(|| runner.run(scene)));
        if let Err(panicked) = ended {
            let said = panicked.downcast_ref::<String>().map_or("", String::as_str);
            notes.tell(|| format!("panicked: {said}"));
            let is_stuck = said.starts_with("deadlock") || said.starts_with("exceeded max_steps");
            notes.check(false, if is_stuck { SERVED } else { SOUND });
        }
        let noted = notes.noted();
        if let Some(tell) = &mut tell {
            noted.trace.iter().flatten().for_each(|line| tell(line.clone()));
        }
        Run { steps: steps.get(), slowness: steps.get(), sights: noted.sights, broken: noted.broken }
    }
}

/// Lets everybody meet, and waits until all is over.
async fn play(world: Arc<World>) {
    let instances: Vec<_> =
        (0..world.plan.instances).map(|number| Arc::new(Instance::new(number, Arc::clone(&world)))).collect();
    for instance in &instances {
        let others = instances.iter().map(Arc::downgrade).collect();
        *instance.others.lock().unwrap_or_else(PoisonError::into_inner) = others;
    }
    for (number, buyer) in world.plan.buyers.iter().enumerate() {
        let instance = Arc::clone(&instances[buyer.instance]);
        world.spawn(buy(instance, number));
    }
    let restarted = Arc::clone(&world);
    if world.plan.restart != NEVER {
        let restarted = Arc::clone(&restarted);
        world.spawn(async move {
            restarted.clock.until(restarted.plan.restart).await;
            let row = restarted.rows[&1].acquire().await;
            restarted.restart(1);
            drop(row);
        });
    }
    let (from, to) = world.plan.rival;
    for sku in 1..=SKUS {
        let world = Arc::clone(&world);
        let rival = async move {
            world.clock.until(from).await;
            let row = world.rows[&sku].acquire().await;
            world.clock.until(to).await;
            drop(row);
        };
        if from != NEVER {
            restarted.spawn(rival);
        }
    }
    let passing = Arc::clone(&world);
    world.spawn(async move {
        let pause = |_| passing.draw(passing.plan.pace);
        let tell = |time| passing.notes.tell(|| format!("it is {time}"));
        passing.clock.run(LAST_TICK, pause, tell).await;
    });
    world.rest().await;
    world.close();
    instances.iter().for_each(|instance| instance.close());
}
