-- The load of scripts/bulk, for wrk: bulk appends of `lines` lines (an argument, default 100), each an
-- append of one event of 200 bytes of JSON, without an expected sequence number. The ids are as many
-- that concurrent requests rarely append to the same one. Prints "requests N seconds S failed F".

function init(arguments)
  local lines = tonumber(arguments[1] or 100)
  local payload = string.rep("x", 198)
  local headers = { ["Content-Type"] = "application/x-ndjson" }
  number, requests = 0, {}
  for batch = 0, 127 do
    local body = {}
    for line = 1, lines do
      local id = "bulk|" .. batch * lines + line
      body[line] = '{"persistence_id":"' .. id .. '","events":[{"payload":"' .. payload .. '"}]}'
    end
    requests[batch] = wrk.format("POST", "/v1/append", headers, table.concat(body, "\n"))
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
