{%- import "shared.txt" as shared -%}
// A flash sale: {{ shared::stock(load) }}. The load: {{ described }}.
// Written by `loadgen export k6`.
//
//   k6 run seckill.js
//
{%- if load.runs.len() > 1 %}
// Once with each of these lines:
{%- for run in load.runs %}
//   -e USERS={{ run.users }}{% if let Some(strategy) = run.strategy %} -e STRATEGY={{ strategy }}{% endif %}
{%- endfor %}
//
{%- endif %}
// What -e NAME=value changes: USERS, STRATEGY (the sale's own if empty), TARGETS and GOODS (separated by commas), {% match model %}
  {%- when LoadModel::Burst %}LEAD_MS, START_AT
  {%- when LoadModel::Ramp { .. } %}RAMP_UP_MS, LEAD_MS, START_AT
  {%- when LoadModel::Loop { ramp_up_ms: 0, .. } %}DURATION_MS
  {%- when LoadModel::Loop { .. } %}DURATION_MS, RAMP_UP_MS
  {%- when LoadModel::Open { .. } %}RATE (a second), DURATION_MS
{%- endmatch %}.
{%- if let Some(up) = load.up() %}
//
// The service for it:
//   {{ shared::up(load, up) }}
{%- endif %}
//
// Before every run the stock is to be put on sale again:
{{- shared::puts(load, "// ", "-e STRATEGY") }}
//
// As in loadgen compare: who buys what and where, when, and how long a buyer waits for an answer.
// Not as there:
{%- match model %}
{%- when LoadModel::Burst %}
// - Nobody waits for the last user: whoever is not there LEAD_MS after the beginning comes late, and its time counts from when the others began.
{%- when LoadModel::Loop { ramp_up_ms: 0, .. } %}
// - There is no rendezvous: users begin as soon as k6 has started them.
{%- when LoadModel::Open { arrivals, .. } %}
{%- if *arrivals == Arrivals::Poisson %}
// - Arrivals are evenly spaced: k6 has no Poisson process.
{%- endif %}
// - Times count from when a request was sent. What found no free user is counted as dropped_iterations, and its time is missing: as long as there are any, the quantiles flatter.
{%- else %}
{%- endmatch %}
// - Times are in whole milliseconds.
{{- shared::differences(load, "// ") }}
{%- if !rules.idle().is_empty() %}
// - Checked only with -e STRATEGY=… or -e USERS=… that they name: {{ rules.idle()|join("; ") }}.
{%- endif %}
{%- if !rules.unchecked.is_empty() %}
// - What k6 cannot know is not checked: {{ rules.unchecked|join("; ") }}.
{%- endif %}
//
// Several machines divide one script among them by --execution-segment (or k6's operator does):
//   k6 run --execution-segment 0:1/2 --execution-segment-sequence 0,1/2,1 seckill.js
//   k6 run --execution-segment 1/2:1 --execution-segment-sequence 0,1/2,1 seckill.js
// USERS and the rate are those of all of them; each checks the thresholds by what it has seen itself.
{%- if model.is_one_shot() %}
// They begin together if all get the same instant, and their clocks agree: -e START_AT=$(( $(date +%s000) + 10000 ))
{%- endif %}

import { check, sleep } from 'k6';
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Rate, Trend } from 'k6/metrics';

const USERS = Number(__ENV.USERS || {{ first.users }});
const STRATEGY = __ENV.STRATEGY ?? '{{ first.strategy.as_deref().unwrap_or_default() }}';
const TARGETS = (__ENV.TARGETS || '{{ load.instances|join(",") }}').split(',');
const GOODS = (__ENV.GOODS || '{{ load.goods()|join(",") }}').split(',');
const ANSWER_WITHIN = '{{ load.answer_within_ms() }}ms';
const ANSWERS = http.expectedStatuses(200, 409);
const REFUSALS = [
{%- for slug in NOTHING_WRITTEN %}
  '{{ PROBLEM_TYPE }}{{ slug }}',
{%- endfor %}
];
{%- if model.is_one_shot() %}
// When the first buyer buys: so long after all users are there, or at an instant of the clock, in milliseconds
// since 1970, that several k6 share.
const LEAD_MS = Number(__ENV.LEAD_MS || 3000);
const START_AT = Number(__ENV.START_AT || 0);
{%- endif %}
{%- match model %}
{%- when LoadModel::Burst %}
{%- when LoadModel::Ramp { ramp_up_ms } %}
// From the first buyer to the last one.
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

// As the buyers were told. Times count from the instant at which a buyer wanted to buy.
const sold = new Counter('sold');
const soldOut = new Counter('sold_out');
const refused = new Rate('refused');
const errors = new Rate('errors');
const soldTime = new Trend('sold_ms', true);

/**
 * @typedef {object} Rule
 * @property {RegExp} strategies
 * @property {number | null} users
 * @property {string} metric
 * @property {string} holds
 */

/** @type {Rule[]} */
const RULES = [
{%- for rule in rules.checked %}
  // {{ rule.text }}
  { strategies: /^{{ rule.strategies|safe }}$/, users: {% if let Some(users) = rule.users %}{{ users }}{% else %}null{% endif %}, metric: '{{ rule.metric }}', holds: `{{ rule.holds|safe }}` },
{%- endfor %}
];

/** The rules that are about this strategy with so many users, as k6 wants them. */
function thresholds() {
  /** @type {Record<string, string[]>} */
  const chosen = {};
  for (const { strategies, users, metric, holds } of RULES) {
    if (strategies.test(STRATEGY) && (users === null || users === USERS)) {
      chosen[metric] = (chosen[metric] || []).concat(holds);
    }
  }
  if (chosen.sold_ms) {
    // Where nothing was sold, k6 takes all of its times for 0, but what was not measured holds no rule.
    chosen.sold = (chosen.sold || []).concat('count>0');
  }
  return chosen;
}

/** @type {import('k6/options').Options} */
export const options = {
  scenarios: {
    sale: {
{%- match model %}
{%- when LoadModel::Burst %}
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
{%- when LoadModel::Burst %}

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
 * Buys one unit. Buyers take turns in the instances, and rounds of them in the SKUs.
 *
 * @param {number} number that of the request
 * @param {number} intended when its buyer wants to buy, in milliseconds of the clock
 */
function buy(number, intended) {
  const target = TARGETS[number % TARGETS.length];
  const goods = GOODS[Math.floor(number / TARGETS.length) % GOODS.length];
  const answer = http.get(`${target}/goods-stock/${goods}?strategy=${STRATEGY}`, {
    timeout: ANSWER_WITHIN,
    tags: { name: 'GET /goods-stock/{goodsNo}' },
    responseCallback: ANSWERS,
  });
  const waited = Date.now() - intended;
  const isSold = answer.status === 200;
  const isSoldOut = answer.status === 409;
  const isRefused = answer.status === 503 && promisesNothingWasWritten(answer);
  check(answer, { 'sold or sold out': () => isSold || isSoldOut });
  sold.add(isSold ? 1 : 0);
  soldOut.add(isSoldOut ? 1 : 0);
  refused.add(isRefused);
  errors.add(!isSold && !isSoldOut && !isRefused);
  if (isSold) {
    soldTime.add(waited);
  }
  if (answer.status === 0) {
    // An instance that is gone is not to be asked tens of thousands of times a second.
    sleep(0.01);
  }
}

/**
 * Whether a 503 is of one of the types that promise it. Of any other the unit may have been sold.
 *
 * @param {import('k6/http').Response} answer
 */
function promisesNothingWasWritten(answer) {
  try {
    return REFUSALS.indexOf(String(answer.json('type'))) >= 0;
  } catch (error) {
    return false;
  }
}
