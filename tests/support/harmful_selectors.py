"""Selectors of devices that killed or held the processes that evaluated them."""

DRIVER = "dra.example.com"

SELECTORS = {
    "sum": f'[device.attributes["{DRIVER}"].?zz[0]].sum() == 1',
    "lookup": f'device.attributes["{DRIVER}"].?zz[0]',
    "endless": 'device.driver.findAll("", 9223372036854775807) == []',
    "dear": '!lists.range(9990).all(x, cidr("::/0").masked() == cidr("::/0") && cidr("::/0").masked() == cidr("::/0")'
    ' && cidr("::/0").masked() == cidr("::/0") && cidr("::/0").masked() == cidr("::/0"))',
    "contains": '!lists.range(9990).all(x, cidr("0.0.0.0/0").containsCIDR("10.0.0.0/8"))',
    "address": '!lists.range(9990).all(x, ip("10.0.0.1") == ip("10.0.0.1"))',
    "url": '!lists.range(9990).all(x, url("https://example.com/").getHost() == "example.com")',
    "find": '!lists.range(9990).all(x, "aaaa".find("a+") == "aaaa")',
}
