/**
 * An answer. `failure` says why there is none.
 *
 * @typedef {object} Answer
 * @property {number} status
 * @property {string} body
 * @property {Record<string, string>} headers
 * @property {Record<string, any[]>} cookies
 * @property {string} failure
 * @property {boolean} isSuccess whether it lets the buyer go on, if it decides nothing
 */

/**
 * @param {string} failure
 * @returns {Answer}
 */
function nothing(failure) {
  return { status: 0, body: '', headers: {}, cookies: {}, failure, isSuccess: false };
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
    if (answer.failure || !location || [301, 302, 303, 307, 308].indexOf(answer.status) < 0) {
      return answer;
    }
    const url = resolved(next.url, location);
    const isHere = originOf(url) === originOf(next.url);
    if (!request.follows) {
      // By such a redirect, a form answers that it was taken.
      return { ...answer, isSuccess: isHere && (answer.status === 302 || answer.status === 303) };
    }
    if (!isHere) {
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
    // The point of the metric `purchase` is the purchase.
    tags: { name: 'request: no purchase' },
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
  const isSuccess = answer.status >= 200 && answer.status <= 299;
  return { status: answer.status, body: String(answer.body || ''), headers, cookies: answer.cookies, failure: '', isSuccess };
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
