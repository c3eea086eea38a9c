// Purchases at a shop: {{ head.shop }}. The load: {{ head.described }}.
// Written by `loadgen export k6 --shop`.
//
// This script neither puts the stock on sale nor reads the books. Before each run, and after it:
//   loadgen judge --shop SHOP --put-on-sale before.json
//   loadgen judge purchases*.json --shop SHOP --before before.json --users {{ head.users }}
//
// Run it. START_AT is the instant at which the sale begins, by the clock of this machine. Buyers sign up before it:
//   k6 run --out json=purchases.json -e START_AT=$(date -u -d '+20 seconds' +%FT%TZ) {{ file|safe }}
//
// Several machines divide the users among them. All need synchronised clocks and the same START_AT:
//   k6 run --out json=purchases-1.json -e START_AT=… --execution-segment 0:1/2 --execution-segment-sequence 0,1/2,1 {{ file|safe }}
//   k6 run --out json=purchases-2.json -e START_AT=… --execution-segment 1/2:1 --execution-segment-sequence 0,1/2,1 {{ file|safe }}
// USERS{% if head.pace.has_rate() %} and RATE are totals{% else %} is the total{% endif %} of all machines. No two of them have a buyer of the same number. Keep the files of all machines.
// The manifest beside this file does the same by the operator of k6.
//
// Settings, each changed by -e NAME=value:
//   START_AT     common start, as 2026-11-27T12:00:00Z{% if head.start_at.is_empty() %}; a run without it ends at once{% endif %}
//   USERS        number of users, each a buyer
//   TRIAL        number of the trial, for the results
{%- if head.pace.ramp_up_ms > 0 %}
//   RAMP_UP_MS   milliseconds from the first start of a buyer to the last one
{%- endif %}
{%- if head.pace.duration_ms > 0 %}
//   DURATION_MS  milliseconds in which purchases start
{%- endif %}
{%- if head.pace.has_rate() %}
//   RATE         purchases per second
{%- endif %}
{%- if !head.csv.is_empty() %}
//   BUYERS       CSV file with a line for each buyer
{%- endif %}
{%- for variable in head.variables %}
//   {{ variable }}: a secret of the shop file, which is not written here
{%- endfor %}
{%- if head.has_certificate %}
//   The shop has a certificate of its own: run k6 with SSL_CERT_FILE=ca.pem in its environment.
{%- endif %}
//
// Results: a point of the metric `purchase` for each purchase, at its end. It lasts from its first request to its last answer, in
// milliseconds with fractions, connecting included. Tags: shop, outcome, status, trial. Metadata, percent-encoded: buyer, order,
// intended (milliseconds since 1970). With --out csv=FILE, set K6_CSV_TIME_FORMAT=unix_nano: whole seconds are too coarse.
// - Pauses between the requests of one purchase are measured in whole milliseconds.
// - A buyer whose last purchase lasts too long makes the next one late. The intended instant stays.
{%- if head.pace.has_rate() %}
// - Arrivals are evenly spaced, and buyers take them in turns.
{%- endif %}

import { sleep } from 'k6';
{%- if !head.csv.is_empty() %}
import { SharedArray } from 'k6/data';
{%- endif %}
import exec from 'k6/execution';
import http from 'k6/http';
import { Trend } from 'k6/metrics';

/** @type {any} What a buyer does. A number that an answer must have is a text that begins with U+0000. */
const SHOP = {{ description|safe }};

const START_AT = __ENV.START_AT || '{{ head.start_at }}';
const START = Date.parse(START_AT);
const USERS = Number(__ENV.USERS || {{ head.users }});
const TRIAL = __ENV.TRIAL || '';
const RAMP_UP_MS = Number(__ENV.RAMP_UP_MS || {{ head.pace.ramp_up_ms }});
const DURATION_MS = Number(__ENV.DURATION_MS || {{ head.pace.duration_ms }});
const RATE = Number(__ENV.RATE || {{ head.pace.rate_per_s }});
// Of a longer body, only the beginning is searched for a text, and none is read as JSON.
const BODY_MAX = 1024 * 1024;
const REDIRECTS_MAX = 10;
const BOUNDARY = 'loadgen-form-7d9f2c51';

if (Number.isNaN(START)) {
  throw new Error(`START_AT is "${START_AT}", and the start is an instant such as 2026-11-27T12:00:00Z; set it by -e START_AT=…`);
}
for (const name of SHOP.variables) {
  if (!__ENV[name]) {
    throw new Error(`the environment has no variable ${name}; set it, as in: export ${name}=…`);
  }
}
{%- if !head.csv.is_empty() %}

const PEOPLE = new SharedArray('buyers', () => peopleOf(open(__ENV.BUYERS || './{{ head.csv }}')));
{%- endif %}

const purchases = new Trend('purchase', true);

/** @type {import('k6/options').Options} */
export const options = {
  scenarios: {
    sale: {
      executor: 'per-vu-iterations',
      vus: USERS,
      iterations: 1,
      maxDuration: `${Math.ceil(Math.max(START - Date.now(), 0) + {{ head.pace.length_ms() }} + {{ longest_ms }})}ms`,
    },
  },
  noCookiesReset: true,
};

export function setup() {
  if (START <= Date.now()) {
    throw new Error(`the start ${START_AT} is over; set START_AT to an instant ahead, with time for the sign-ups`);
  }
}

export default function () {
  const number = exec.vu.idInTest - 1;
  const values = valuesOf(number);
  const trouble = signUp(values);
  if (trouble) {
    exec.test.abort(`buyer ${number} could not sign up: ${trouble}`);
  }
  let turn = 0;
  for (let due = dueOf(number, turn); due !== null; due = dueOf(number, turn)) {
    const intended = START + due;
    sleep(Math.max(intended - Date.now(), 0) / 1000);
    purchase(number, values, intended);
    turn += 1;
  }
}

/**
 * Returns when a buyer makes its next purchase, in milliseconds from the start, or null if it makes no more.
 *
 * @param {number} number number of the buyer, from 0
 * @param {number} turn number of the purchase, from 0
 * @returns {number | null}
 */
function dueOf(number, turn) {
  if (RATE > 0) {
    const due = (1000 * (turn * USERS + number)) / RATE;
    return due < DURATION_MS ? due : null;
  }
  if (turn === 0) {
    return (RAMP_UP_MS * number) / Math.max(USERS - 1, 1);
  }
  const now = Date.now() - START;
  return now < DURATION_MS ? now : null;
}

/**
 * Returns the values with which a buyer begins.
 *
 * @param {number} number
 */
function valuesOf(number) {
  /** @type {Record<string, string>} */
  const values = { url: SHOP.urls[number % SHOP.urls.length], number: String(number) };
  for (const name of SHOP.variables) {
    values[`env.${name}`] = __ENV[name];
  }
{%- if !head.csv.is_empty() %}
  const line = PEOPLE[number];
  if (!line) {
    throw new Error(`the file of the buyers has no line for buyer ${number}; add lines to it, or set fewer USERS`);
  }
  SHOP.columns.forEach((/** @type {string} */ name, /** @type {number} */ column) => {
    values[name] = line[column];
  });
{%- endif %}
  return values;
}

/**
 * Signs a buyer up. Returns what went wrong, or nothing.
 *
 * @param {Record<string, string>} values
 */
function signUp(values) {
  for (const request of SHOP.signUp.requests) {
    const answer = ask(request, SHOP.signUp.take, values, newCourse());
    if (!answer.isSuccess) {
      return `${request.at}: answered ${answer.status} ${answer.failure}`;
    }
  }
  const absent = SHOP.signUp.take.find((/** @type {[string, any]} */ taken) => values[taken[0]] === undefined);
  return absent ? `no answer has ${absent[0]}` : '';
}

/**
 * What a purchase took so far.
 *
 * @typedef {object} Course
 * @property {number} spentMs time of all requests and pauses, in milliseconds
 * @property {number} last end of the last request, in milliseconds since 1970; 0 before the first one
 * @property {number} status status of the last answer; 0 without one
 */

/** @returns {Course} */
function newCourse() {
  return { spentMs: 0, last: 0, status: 0 };
}

/**
 * Buys once, and notes it.
 *
 * @param {number} number
 * @param {Record<string, string>} values
 * @param {number} intended instant at which the buyer wants to buy, in milliseconds since 1970
 */
function purchase(number, values, intended) {
  delete values.order;
  const course = newCourse();
  const outcome = decide(values, course);
  const metadata = exec.vu.metrics.metadata;
  metadata.buyer = String(number);
  metadata.intended = String(intended);
  if (outcome === 'sold' && values.order !== undefined) {
    metadata.order = encodeURIComponent(values.order);
  }
  /** @type {Record<string, string>} */
  const tags = { shop: encodeURIComponent(SHOP.name), outcome, status: String(course.status) };
  if (TRIAL) {
    tags.trial = TRIAL;
  }
  purchases.add(course.spentMs, tags);
  delete metadata.buyer;
  delete metadata.intended;
  delete metadata.order;
  if (course.status === 0) {
    // Without the pause, users would ask a stopped shop tens of thousands of times per second.
    sleep(0.01);
  }
}

/**
 * Buys, and asks for the outcome if the shop queues the buyer. Returns sold, sold_out, over_limit, refused, error or
 * timeout.
 *
 * @param {Record<string, string>} values
 * @param {Course} course
 * @returns {string}
 */
function decide(values, course) {
  let told = through(SHOP.buy, values, course);
  noteOrder(values, told.answer);
  if (told.meaning !== 'queued') {
    return told.meaning;
  }
  if (!SHOP.outcome) {
    return 'error';
  }
  const { everyMs, withinMs } = SHOP.outcome;
  const deadline = Date.now() + withinMs;
  while (told.meaning === 'queued') {
    const left = deadline - Date.now();
    sleep(Math.max(Math.min(everyMs, left), 0) / 1000);
    if (left <= everyMs) {
      course.spentMs += Date.now() - course.last;
      return 'timeout';
    }
    told = through(SHOP.outcome, values, course);
  }
  if (told.meaning === 'sold') {
    noteOrder(values, told.answer);
  }
  return told.meaning;
}

/**
 * Sends the requests of a section until an answer decides.
 *
 * @param {any} section
 * @param {Record<string, string>} values
 * @param {Course} course
 */
function through(section, values, course) {
  let answer = nothing('no request');
  for (const request of section.requests) {
    const isLast = request === section.requests[section.requests.length - 1];
    answer = ask(request, section.take, values, course);
    if (answer.failure) {
      return { meaning: answer.failure === 'timeout' ? 'timeout' : 'error', answer };
    }
    const meaning = meaningOf(answer, isLast);
    if (meaning) {
      return { meaning, answer };
    }
    if (!answer.isSuccess) {
      break;
    }
  }
  return { meaning: 'error', answer };
}

/**
 * Returns what an answer means, or nothing. An earlier answer can only mean sold out or refused.
 *
 * @param {Answer} answer
 * @param {boolean} isLast
 * @returns {string}
 */
function meaningOf(answer, isLast) {
  for (const [meaning, patterns] of SHOP.meanings) {
    const isEarly = ['sold_out', 'over_limit', 'refused'].includes(meaning);
    if ((isLast || isEarly) && patterns.some((/** @type {any} */ pattern) => isMatch(pattern, answer))) {
      return meaning;
    }
  }
  return '';
}

/**
 * @param {any} pattern
 * @param {Answer} answer
 */
function isMatch(pattern, answer) {
  if (pattern.statuses.length > 0 && pattern.statuses.indexOf(answer.status) < 0) {
    return false;
  }
  const hasHeader = (/** @type {[string, string]} */ [name, part]) => (answer.headers[name] || '').indexOf(part) >= 0;
  if (!pattern.headers.every(hasHeader) || (pattern.text !== null && !hasText(answer.body, pattern.text))) {
    return false;
  }
  return pattern.values.every((/** @type {[any[], any]} */ wanted) => isSame(walk(jsonOf(answer), wanted[0]), wanted[1]));
}

/**
 * Notes the number of the order, unless it is known.
 *
 * @param {Record<string, string>} values
 * @param {Answer} answer
 */
function noteOrder(values, answer) {
  const order = SHOP.order ? valueIn(answer, SHOP.order) : undefined;
  if (values.order === undefined && order !== undefined) {
    values.order = order;
  }
}

{% include "shop/script/requests.js" %}
{% include "shop/script/answers.js" %}