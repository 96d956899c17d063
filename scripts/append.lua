-- The load of scripts/load and scripts/compare, for wrk: appends of one event of 200 bytes of JSON,
-- without an expected sequence number, to 128 ids in turn. That is twice as many ids as connections, so
-- concurrent appends rarely go to the same id. Prints "requests N seconds S failed F".

function init()
  local body = '{"events":[{"payload":"' .. string.rep("x", 198) .. '"}]}'
  local headers = { ["Content-Type"] = "application/json" }
  number, requests = 0, {}
  for id = 0, 127 do
    requests[id] = wrk.format("POST", "/v1/journal/load%7C" .. id .. "/events", headers, body)
  end
end

function request()
  number = number + 1
  return requests[number % 128]
end

function done(summary)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  io.write(string.format("requests %d seconds %.3f failed %d\n", summary.requests, summary.duration / 1e6, failed))
end
