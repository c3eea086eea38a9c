"""Writes `cases.csv`: loads with their trials, classified by MLRsearch 1.2.1, the Python package of RFC 9971.

How it was run:

    pip download --no-deps MLRsearch==1.2.1 && unzip -d MLRsearch MLRsearch-1.2.1-py3-none-any.whl
    PYTHONPATH=MLRsearch python3 cases.py > cases.csv

A row has a goal (loss ratio, exceed ratio, final trial length and duration sum in seconds), its trials, and the answer. A
trial is `load:seconds:lost/offered*repetitions`. The answer is the class of each load (L, U, or ? for undecided), the
relevant lower and upper bound, and the loss ratio of the conditional throughput at the lower bound.
"""

import random

from MLRsearch.discrete_load import DiscreteLoad
from MLRsearch.discrete_result import DiscreteResult
from MLRsearch.discrete_width import DiscreteWidth
from MLRsearch.load_rounding import LoadRounding
from MLRsearch.measurement_database import MeasurementDatabase
from MLRsearch.target_spec import TargetSpec

ROUNDING = LoadRounding(min_load=1.0, max_load=1000.0, float_goals=[0.05])
FROM_INT = DiscreteLoad.int_conver(ROUNDING)
WIDTH = DiscreteWidth(rounding=ROUNDING, float_width=0.05).rounded_down()


def answer(goal, trials):
    """Returns the classes, the relevant bounds and the loss ratio, as text."""
    loss_ratio, exceed_ratio, length, duration_sum = goal
    target = TargetSpec(
        loss_ratio=loss_ratio,
        exceed_ratio=exceed_ratio,
        discrete_width=WIDTH,
        trial_duration=length,
        duration_sum=duration_sum,
        expansion_coefficient=2,
        fail_fast=False,
        preceding=None,
    )
    database = MeasurementDatabase((target,))
    for load, seconds, lost, offered, repetitions in trials:
        load = FROM_INT(load)
        for _ in range(repetitions):
            result = DiscreteResult(
                intended_duration=seconds,
                intended_load=float(load),
                offered_count=offered,
                loss_count=lost,
                discrete_load=load,
            )
            database.add(result)
    letters = {(True, True): "L", (False, False): "U", (True, False): "?"}
    stats = database.load_to_stats.values()
    classes = "".join(letters[stat.estimates(target)] for stat in stats)
    bounds = database.get_relevant_bounds(target)
    lower = upper = loss = ""
    if bounds.clo:
        lower = int(bounds.clo)
        loss = bounds.clo.target_to_stat[target].pessimistic_loss_ratio
    if bounds.chi:
        upper = int(bounds.chi)
    return f"{classes},{lower},{upper},{loss}"


def example_of_the_rfc():
    """Yields the four goals of Appendix C.1 at the six points of Appendix C.2."""
    goals = [(0.0, 0.0, 60.0, 60.0), (0.0, 0.5, 60.0, 120.0), (0.005, 0.5, 1.0, 120.0), (0.005, 0.2, 60.0, 60.0)]
    for point in range(1, 7):
        trials = [(1, 1.0, 0, 1000, 60 if point >= 4 else 59)]
        if point >= 2:
            trials.append((1, 1.0, 10, 1000, 1 if point == 2 else 60))
        if point >= 5:
            trials.append((1, 60.0, 60, 60000, 1))
        if point >= 6:
            trials.append((1, 60.0, 0, 60000, 1))
        for goal in goals:
            yield goal, trials


def drawn(seed):
    """Returns a goal and trials of one to four loads. All lengths are exact as binary fractions."""
    draw = random.Random(seed)
    length = draw.choice([1.0, 2.0, 4.0])
    goal = (
        draw.choice([0.0, 0.01, 0.1]),
        draw.choice([0.0, 0.125, 0.2, 0.25, 0.5, 0.75]),
        length,
        length * draw.choice([1, 2, 5, 9]),
    )
    trials = []
    for load in range(1, draw.randint(1, 4) + 1):
        worst = draw.choice([0, 10, 15, 30, 200])
        for _ in range(draw.randint(1, 8)):
            lost = draw.choice([0, worst, draw.randint(0, worst)])
            trials.append((10 * load, draw.choice([0.25, 0.5, 1.0, 2.0, length, length, 8.0]), lost, 1000, 1))
    return goal, trials


def main():
    """Prints the rows."""
    print("loss_ratio,exceed_ratio,length,duration_sum,trials,classes,lower,upper,loss")
    cases = [*example_of_the_rfc(), *map(drawn, range(300))]
    for goal, trials in cases:
        told = " ".join("{}:{}:{}/{}*{}".format(*trial) for trial in trials)
        print(",".join(map(str, goal)), told, answer(goal, trials), sep=",")


main()
