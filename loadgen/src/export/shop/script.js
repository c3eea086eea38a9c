// Purchases at a shop: {{ head.shop }}. The load: {{ head.described }}.
// Written by `loadgen export k6 --shop`.
//
// Put the stock on sale before every run, as [sale] of the shop file does. This script does not do that, and reads no books.
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
// A longer body is not read as JSON.
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
    if (answer.status < 200 || answer.status > 299) {
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
 * Buys, and asks for the outcome if the shop queues the buyer. Returns sold, sold_out, refused, error or timeout.
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
    if (answer.status < 200 || answer.status > 299) {
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
    const isEarly = meaning === 'sold_out' || meaning === 'refused';
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

/**
 * An answer. `failure` says why there is none.
 *
 * @typedef {object} Answer
 * @property {number} status
 * @property {string} body
 * @property {Record<string, string>} headers
 * @property {Record<string, any[]>} cookies
 * @property {string} failure
 */

/**
 * @param {string} failure
 * @returns {Answer}
 */
function nothing(failure) {
  return { status: 0, body: '', headers: {}, cookies: {}, failure };
}

/**
 * Sends a request, follows its redirects if it wants that, and takes values from every answer.
 *
 * @param {any} request
 * @param {[string, any][]} take
 * @param {Record<string, string>} values
 * @param {Course} course
 * @returns {Answer}
 */
function ask(request, take, values, course) {
  const due = Date.now() + request.withinMs;
  let next = filled(request, values);
  if (!next) {
    course.status = 0;
    return nothing('a value is missing');
  }
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects += 1) {
    const answer = send(next, due - Date.now(), course);
    for (const [name, source] of take) {
      const value = valueIn(answer, source);
      if (value !== undefined) {
        values[name] = value;
      }
    }
    const location = answer.headers.location;
    if (answer.failure || !request.follows || !location || [301, 302, 303, 307, 308].indexOf(answer.status) < 0) {
      return answer;
    }
    const url = resolved(next.url, location);
    if (originOf(url) !== originOf(next.url)) {
      return { ...answer, failure: `redirected to ${originOf(url)}` };
    }
    const isPost = next.method === 'POST' && (answer.status === 301 || answer.status === 302);
    if (isPost || (answer.status === 303 && next.method !== 'HEAD')) {
      const { 'content-type': _, ...headers } = next.headers;
      next = { ...next, method: 'GET', body: null, headers };
    }
    next = { ...next, url };
  }
  return nothing('too many redirects');
}

/**
 * A request with its values.
 *
 * @typedef {object} Filled
 * @property {string} method
 * @property {string} url
 * @property {Record<string, string>} headers
 * @property {string} cookie
 * @property {string | null} body
 */

/**
 * Returns a request with its values, or null if one is missing.
 *
 * @param {any} request
 * @param {Record<string, string>} values
 * @returns {Filled | null}
 */
function filled(request, values) {
  let isWhole = true;
  const fill = (/** @type {string} */ text, /** @type {(value: string, at: number) => string} */ put) =>
    text.replace(/\{\{(.+?)\}\}/g, (_, name, at) => {
      isWhole = isWhole && values[name] !== undefined;
      return put(String(values[name]), at);
    });
  const plain = (/** @type {string} */ text) => fill(text, (value) => value);
  // A value at the beginning is the address of the shop. A later one stays one part of the URL.
  const url = fill(request.url, (value, at) => (at === 0 ? value : encoded(value)));
  /** @type {Record<string, string>} */
  const headers = {};
  let cookie = '';
  for (const [name, text] of request.headers) {
    if (name === 'cookie') {
      cookie += `;${plain(text)}`;
    } else {
      headers[name] = headers[name] === undefined ? plain(text) : `${headers[name]}, ${plain(text)}`;
    }
  }
  let body = request.text === null ? null : plain(request.text);
  if (request.form) {
    headers['content-type'] = `multipart/form-data; boundary=${BOUNDARY}`;
    const parts = request.form.map((/** @type {any} */ part) => {
      const file = part.fileName === null ? '' : `; filename="${quoted(part.fileName)}"`;
      const type = part.mime === null ? '' : `\r\nContent-Type: ${part.mime}`;
      const head = `Content-Disposition: form-data; name="${quoted(part.name)}"${file}${type}`;
      return `--${BOUNDARY}\r\n${head}\r\n\r\n${plain(part.value)}\r\n`;
    });
    body = `${parts.join('')}--${BOUNDARY}--\r\n`;
  }
  return isWhole ? { method: request.method, url, headers, cookie, body } : null;
}

/** @param {string} text */
function quoted(text) {
  return text.replace(/"/g, '%22').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
}

/** @param {string} value */
function encoded(value) {
  return encodeURIComponent(value).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * Sends one request, and adds its time to that of the purchase.
 *
 * @param {Filled} request
 * @param {number} withinMs
 * @param {Course} course
 * @returns {Answer}
 */
function send(request, withinMs, course) {
  const started = Date.now();
  course.spentMs += course.last ? started - course.last : 0;
  const answer = http.request(request.method, request.url, request.body, {
    headers: request.headers,
    cookies: cookiesOf(request),
    redirects: 0,
    responseType: 'text',
    timeout: `${Math.max(withinMs, 1)}ms`,
    tags: { name: 'request' },
  });
  course.last = Date.now();
  course.status = answer.status;
  // `blocked` is the wait for a connection, and contains the time to open it.
  const { blocked, duration } = answer.timings;
  course.spentMs += answer.status === 0 ? course.last - started : blocked + duration;
  if (answer.status === 0) {
    return nothing(answer.error_code === 1050 ? 'timeout' : `no answer: ${answer.error}`);
  }
  /** @type {Record<string, string>} */
  const headers = {};
  for (const name of Object.keys(answer.headers)) {
    headers[name.toLowerCase()] = answer.headers[name];
  }
  return { status: answer.status, body: String(answer.body || ''), headers, cookies: answer.cookies, failure: '' };
}

/**
 * Returns the cookies that a request itself names. Those that the shop has set replace others of the same name.
 *
 * @param {Filled} request
 */
function cookiesOf(request) {
  /** @type {Record<string, string>} */
  const cookies = {};
  if (request.cookie) {
    const kept = http.cookieJar().cookiesForURL(request.url);
    for (const pair of request.cookie.split(';')) {
      const name = pair.split('=')[0].trim();
      if (name && !kept[name]) {
        cookies[name] = pair.slice(pair.indexOf('=') + 1).trim();
      }
    }
  }
  return cookies;
}

/**
 * Returns the URL to which a location leads.
 *
 * @param {string} from
 * @param {string} location
 */
function resolved(from, location) {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(location)) {
    return location;
  }
  const scheme = from.slice(0, from.indexOf(':') + 1);
  const path = from.replace(/[?#].*$/, '');
  const origin = originOf(from);
  if (location.startsWith('//')) {
    return scheme + location;
  }
  if (location.startsWith('/')) {
    return origin + location;
  }
  return location.startsWith('?') ? path + location : path.slice(0, Math.max(path.lastIndexOf('/'), origin.length)) + `/${location}`;
}

/**
 * Returns the scheme, the host and the port of a URL.
 *
 * @param {string} url
 */
function originOf(url) {
  const origin = (/^[^/]*\/\/[^/?#]*/.exec(url) || [''])[0].toLowerCase();
  return origin.replace(/^(http:.*):80$/, '$1').replace(/^(https:.*):443$/, '$1');
}

/**
 * Returns the value at a source of an answer.
 *
 * @param {Answer} answer
 * @param {any} source
 * @returns {string | undefined}
 */
function valueIn(answer, source) {
  if (source.header) {
    return answer.headers[source.header];
  }
  if (source.cookie) {
    const set = answer.cookies[source.cookie] || [];
    return set.length > 0 && set[set.length - 1].value ? set[set.length - 1].value : undefined;
  }
  const found = walk(jsonOf(answer), source.path);
  if (typeof found === 'boolean') {
    return String(found);
  }
  return typeof found === 'string' ? found.replace(/^\u0000/, '') : undefined;
}

/**
 * Returns the JSON of an answer, or undefined. Each number is a text that begins with U+0000: JavaScript rounds large numbers.
 *
 * @param {Answer} answer
 * @returns {any}
 */
function jsonOf(answer) {
  if (answer.body.length > BODY_MAX) {
    return undefined;
  }
  const mark = (/** @type {string} */ token) => (token[0] === '"' ? token : `"\\u0000${token}"`);
  try {
    return JSON.parse(answer.body.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*/g, mark));
  } catch (error) {
    return undefined;
  }
}

/**
 * Returns the value at a path of names and indices, or undefined.
 *
 * @param {any} document
 * @param {(string | number)[]} path
 * @returns {any}
 */
function walk(document, path) {
  let value = document;
  for (const step of path) {
    if (typeof step === 'number') {
      value = Array.isArray(value) ? value[step < 0 ? value.length + step : step] : undefined;
    } else {
      const isObject = value !== null && typeof value === 'object' && !Array.isArray(value);
      value = isObject && Object.prototype.hasOwnProperty.call(value, step) ? value[step] : undefined;
    }
  }
  return value;
}

/**
 * Tells whether two values are equal. 1 and 1.0 are.
 *
 * @param {any} found
 * @param {any} wanted
 * @returns {boolean}
 */
function isSame(found, wanted) {
  const isNumber = (/** @type {any} */ value) => typeof value === 'string' && value[0] === '\u0000';
  if (isNumber(found) && isNumber(wanted)) {
    const isWhole = [found, wanted].every((value) => /^-?[0-9]+$/.test(value.slice(1)));
    return isWhole ? found === wanted : Number(found.slice(1)) === Number(wanted.slice(1));
  }
  if (Array.isArray(found) && Array.isArray(wanted)) {
    return found.length === wanted.length && found.every((value, index) => isSame(value, wanted[index]));
  }
  if (found && wanted && typeof found === 'object' && typeof wanted === 'object' && !Array.isArray(found) && !Array.isArray(wanted)) {
    const names = Object.keys(found);
    return names.length === Object.keys(wanted).length && names.every((name) => name in wanted && isSame(found[name], wanted[name]));
  }
  return found === wanted;
}
{%- if !head.csv.is_empty() %}

/**
 * Returns the buyers of a CSV file, without its first line.
 *
 * @param {string} text
 */
function peopleOf(text) {
  /** @type {string[][]} */
  const lines = [[]];
  const cells = /(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g;
  const body = text.replace(/^\ufeff/, '').replace(/(\r?\n)+$/, '');
  for (let cell = cells.exec(body); cell; cell = cells.exec(body)) {
    lines[lines.length - 1].push(cell[1] === undefined ? cell[2] : cell[1].replace(/""/g, '"'));
    if (cell[3] === '') {
      break;
    }
    if (cell[3] !== ',') {
      lines.push([]);
    }
  }
  return lines.slice(1);
}
{%- endif %}
