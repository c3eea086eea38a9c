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
 * Tells whether the beginning of a body contains a text. The beginning is measured in bytes.
 *
 * @param {string} body
 * @param {string} part
 */
function hasText(body, part) {
  const at = body.indexOf(part);
  return at >= 0 && encodeURIComponent(body.slice(0, at) + part).replace(/%../g, '_').length <= BODY_MAX;
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
