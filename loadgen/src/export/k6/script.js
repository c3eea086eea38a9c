{%- import "shared.txt" as shared -%}
// A flash sale: {{ shared::stock(load) }}. The load: {{ described }}.
// Written by `loadgen export k6`.
//
// Run it:
//   k6 run {{ file|safe }}
{%- if load.runs.len() > 1 %}
//
// The load has several runs. Each needs the settings of one line:
{%- for run in load.runs %}
//   -e USERS={{ run.users }} -e STRATEGY={{ run.strategy }}
{%- endfor %}
{%- endif %}
//
// Settings, each changed by -e NAME=value:
//   USERS        number of users
//   STRATEGY     name of the strategy; empty: the strategy of the sale
//   TARGETS      base URLs of the instances, separated by commas
//   GOODS        SKUs, separated by commas
{%- match model %}
{%- when LoadModel::Burst { .. } %}
//   LEAD_MS      milliseconds from `setup` to the instant at which all users buy
//   START_AT     that instant itself, in milliseconds since 1970, instead of LEAD_MS
{%- when LoadModel::Ramp { .. } %}
//   RAMP_UP_MS   milliseconds from the first purchase to the last one
//   LEAD_MS      milliseconds from `setup` to the first purchase
//   START_AT     instant of the first purchase, in milliseconds since 1970, instead of LEAD_MS
{%- when LoadModel::Loop { ramp_up_ms, .. } %}
//   DURATION_MS  milliseconds in which users start requests
{%- if *ramp_up_ms > 0 %}
//   RAMP_UP_MS   milliseconds from the start of the first user to that of the last one
{%- endif %}
{%- when LoadModel::Open { .. } %}
//   RATE         arrivals per second
//   DURATION_MS  milliseconds in which buyers arrive
{%- endmatch %}
{%- if let Some(up) = load.up() %}
//
// Start the service:
//   {{ shared::up(load, up) }}
{%- endif %}
//
// Put the stock on sale again before every run:
{{- shared::puts(load, "// ", "-e STRATEGY") }}
//
// Same as in `loadgen compare`: which buyer buys what, where and when; how long a buyer waits for an answer.
// Different from `loadgen compare`:
{%- match model %}
{%- when LoadModel::Burst { .. } %}
// - There is no rendezvous. A user that k6 starts too late buys late, and its time still counts from the common instant.
{%- when LoadModel::Loop { ramp_up_ms: 0, .. } %}
// - There is no rendezvous: a user starts as soon as k6 has created it.
{%- when LoadModel::Open { arrivals, .. } %}
{%- if *arrivals == Arrivals::Poisson %}
// - Arrivals are evenly spaced: k6 has no Poisson process.
{%- endif %}
// - Times count from the sending of a request. If no user is free, k6 drops the arrival and counts it in dropped_iterations. Dropped arrivals have no time, so the quantiles are then too low.
{%- else %}
{%- endmatch %}
// - Times are in whole milliseconds.
{{- shared::differences(load, "// ", false) }}
{%- if !rules.idle().is_empty() %}
// - These thresholds are checked only with a matching -e STRATEGY=… or -e USERS=…: {{ rules.idle()|join("; ") }}.
{%- endif %}
{%- if !rules.unchecked.is_empty() %}
// - These thresholds are not checked, because k6 does not know their figures: {{ rules.unchecked|join("; ") }}.
{%- endif %}
//
// Several machines divide the users among them with --execution-segment, as the operator of k6 does:
//   k6 run --execution-segment 0:1/2 --execution-segment-sequence 0,1/2,1 {{ file|safe }}
//   k6 run --execution-segment 1/2:1 --execution-segment-sequence 0,1/2,1 {{ file|safe }}
// USERS is the total of all machines
{%- if let LoadModel::Open { .. } = model %}, and so is RATE{% endif %}. Each machine checks the thresholds by its own figures.
{%- if model.is_one_shot() %}
// To buy at the same instant, the machines need synchronised clocks and one START_AT: -e START_AT=$(( $(date +%s000) + 10000 ))
{%- endif %}

import { check, sleep } from 'k6';
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Rate, Trend } from 'k6/metrics';

const USERS = Number(__ENV.USERS || {{ first.users }});
const STRATEGY = __ENV.STRATEGY ?? '{{ first.strategy }}';
const TARGETS = (__ENV.TARGETS || '{{ load.instances|join(",") }}').split(',');
const GOODS = (__ENV.GOODS || '{{ load.goods()|join(",") }}').split(',');
const ANSWER_WITHIN_MS = {{ load.answer_within_ms() }};
const ANSWER_WITHIN = `${ANSWER_WITHIN_MS}ms`;
const ANSWERS = http.expectedStatuses(200, 202, 409);
const SOLD_OUT = '{{ PROBLEM_TYPE }}{{ SOLD_OUT }}';
const SALE_RESTARTED = '{{ PROBLEM_TYPE }}{{ SALE_RESTARTED }}';
const REFUSALS = [
{%- for slug in NOTHING_WRITTEN %}
  '{{ PROBLEM_TYPE }}{{ slug }}',
{%- endfor %}
];
{%- if model.is_one_shot() %}
const LEAD_MS = Number(__ENV.LEAD_MS || 3000);
const START_AT = Number(__ENV.START_AT || 0);
{%- endif %}
{%- match model %}
{%- when LoadModel::Burst { .. } %}
{%- when LoadModel::Ramp { ramp_up_ms, .. } %}
const RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || {{ ramp_up_ms }});
{%- when LoadModel::Loop { duration_ms, ramp_up_ms } %}
const DURATION_MS = Number(__ENV.DURATION_MS || {{ duration_ms }});
{%- if *ramp_up_ms > 0 %}
const RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || {{ ramp_up_ms }});
{%- endif %}
{%- when LoadModel::Open { rate_per_s, duration_ms, .. } %}
const RATE = Number(__ENV.RATE || {{ rate_per_s }});
const DURATION_MS = Number(__ENV.DURATION_MS || {{ duration_ms }});
{%- endmatch %}

// What the buyers were told. A time counts from the instant at which its buyer wants to buy.
const sold = new Counter('sold');
const soldOut = new Counter('sold_out');
const refused = new Rate('refused');
const errors = new Rate('errors');
const soldTime = new Trend('sold_ms', true);

/**
 * A condition on a metric, for some strategies and, unless `users` is null, for one number of users.
 *
 * @typedef {object} Rule
 * @property {RegExp} strategies
 * @property {number | null} users
 * @property {string} metric
 * @property {string} condition
 */

/** @type {Rule[]} */
const RULES = [
{%- for rule in rules.checked %}
  // {{ rule.text }}
  { strategies: /^{{ rule.strategies|safe }}$/, users: {% if let Some(users) = rule.users %}{{ users }}{% else %}null{% endif %}, metric: '{{ rule.metric }}', condition: `{{ rule.condition|safe }}` },
{%- endfor %}
];

/** Returns the conditions for this strategy and number of users, by metric. */
function thresholds() {
  /** @type {Record<string, string[]>} */
  const chosen = {};
  for (const { strategies, users, metric, condition } of RULES) {
    if (strategies.test(STRATEGY) && (users === null || users === USERS)) {
      chosen[metric] = (chosen[metric] || []).concat(condition);
    }
  }
  if (chosen.sold_ms) {
    // Without a sale, k6 takes the quantiles of its times for 0. A figure that was not measured must not pass.
    chosen.sold = (chosen.sold || []).concat('count>0');
  }
  return chosen;
}

/** @type {import('k6/options').Options} */
export const options = {
  scenarios: {
    sale: {
{%- match model %}
{%- when LoadModel::Burst { .. } %}
      executor: 'per-vu-iterations',
      vus: USERS,
      iterations: 1,
      maxDuration: `${Math.max(LEAD_MS, START_AT - Date.now()) + {{ longest_ms }}}ms`,
{%- when LoadModel::Ramp { .. } %}
      executor: 'per-vu-iterations',
      vus: USERS,
      iterations: 1,
      maxDuration: `${Math.max(LEAD_MS, START_AT - Date.now()) + RAMP_UP_MS + {{ longest_ms }}}ms`,
{%- when LoadModel::Loop { ramp_up_ms: 0, .. } %}
      executor: 'constant-vus',
      vus: USERS,
      duration: `${DURATION_MS}ms`,
      gracefulStop: ANSWER_WITHIN,
{%- when LoadModel::Loop { .. } %}
      executor: 'ramping-vus',
      startVUs: 0,
      stages: [
        { duration: `${RAMP_UP_MS}ms`, target: USERS },
        { duration: `${DURATION_MS - RAMP_UP_MS}ms`, target: USERS },
      ],
      gracefulStop: ANSWER_WITHIN,
{%- when LoadModel::Open { .. } %}
      executor: 'constant-arrival-rate',
      rate: Math.round(1000 * RATE),
      timeUnit: '1000s',
      duration: `${DURATION_MS}ms`,
      preAllocatedVUs: USERS,
      maxVUs: USERS,
      gracefulStop: ANSWER_WITHIN,
{%- endmatch %}
    },
  },
  thresholds: thresholds(),
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'max', 'count'],
};
{%- match model %}
{%- when LoadModel::Burst { .. } %}

export function setup() {
  return { start: START_AT || Date.now() + LEAD_MS };
}

/** @param {ReturnType<typeof setup>} data */
export default function (data) {
  const number = exec.vu.idInTest - 1;
  const intended = data.start;
  sleep(Math.max(intended - Date.now(), 0) / 1000);
  buy(number, intended);
}
{%- when LoadModel::Ramp { .. } %}

export function setup() {
  return { start: START_AT || Date.now() + LEAD_MS };
}

/** @param {ReturnType<typeof setup>} data */
export default function (data) {
  const number = exec.vu.idInTest - 1;
  const intended = data.start + (RAMP_UP_MS * number) / Math.max(USERS - 1, 1);
  sleep(Math.max(intended - Date.now(), 0) / 1000);
  buy(number, intended);
}
{%- when LoadModel::Loop { .. } %}

export default function () {
  buy(exec.vu.idInTest - 1 + USERS * exec.vu.iterationInScenario, Date.now());
}
{%- when LoadModel::Open { .. } %}

export default function () {
  buy(exec.scenario.iterationInTest, Date.now());
}
{%- endmatch %}

/**
 * Buys one unit. Successive requests go to every instance with the first SKU, then to every instance with the next one.
 *
 * @param {number} number number of the request among those of all users, from 0
 * @param {number} intended instant at which the buyer wants to buy, in milliseconds since 1970
 */
function buy(number, intended) {
  const target = TARGETS[number % TARGETS.length];
  const goods = GOODS[Math.floor(number / TARGETS.length) % GOODS.length];
  const first = http.get(`${target}/goods-stock/${goods}?strategy=${STRATEGY}`, {
    timeout: ANSWER_WITHIN,
    tags: { name: 'GET /goods-stock/{goodsNo}' },
    responseCallback: ANSWERS,
  });
  const waited = Date.now() - intended;
  const answer = first.status === 202 ? decided(first, `${target}/tickets/${first.json('ticket')}`) : first;
  const isSold = answer.status === 200;
  const isSoldOut = answer.status === 409 && typeOf(answer) === SOLD_OUT;
  const isRefused = answer.status === 503 && REFUSALS.indexOf(typeOf(answer)) >= 0;
  check(answer, { 'sold or sold out': () => isSold || isSoldOut });
  sold.add(isSold ? 1 : 0);
  soldOut.add(isSoldOut ? 1 : 0);
  refused.add(isRefused);
  errors.add(!isSold && !isSoldOut && !isRefused);
  if (isSold) {
    soldTime.add(waited);
  }
  if (answer.status === 0) {
    // Without the pause, users would ask a stopped instance tens of thousands of times per second.
    sleep(0.01);
  }
}

/**
 * Asks for a ticket until it is decided, more and more seldom, and returns the answer: that of the purchase. A question that
 * fails says nothing of the purchase, so it is asked again. If the time is over, the answer is the first one.
 *
 * @param {import('k6/http').Response} first
 * @param {string} ticket
 */
function decided(first, ticket) {
  const until = Date.now() + ANSWER_WITHIN_MS;
  for (let pause = 0.01; ; pause = Math.min(2 * pause, 0.5)) {
    sleep(pause);
    const answer = http.get(ticket, {
      timeout: ANSWER_WITHIN,
      tags: { name: 'GET /tickets/{ticket}' },
      responseCallback: ANSWERS,
    });
    const hasFailed = answer.status === 0 || answer.status === 429 || answer.status >= 500;
    if (answer.status !== 202 && (!hasFailed || typeOf(answer) === SALE_RESTARTED)) {
      return answer;
    }
    if (Date.now() >= until) {
      return first;
    }
  }
}

/**
 * Returns the type of the problem that an answer has, or nothing.
 *
 * @param {import('k6/http').Response} answer
 */
function typeOf(answer) {
  try {
    return String(answer.json('type'));
  } catch (error) {
    return '';
  }
}
