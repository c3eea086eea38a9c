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
