"""Landing files of the bundled source ``sales``."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.lake import Lake

SALES_HEADER = "sale_id,store,sold_at,amount,customer_id,received_at,op,is_correction,corrects_sale_id\n"
FIRST_SALES = SALES_HEADER + "".join(
    f"s{day}{n},north,2024-11-{day:02}T10:0{n}:00Z,10.00,{n},2024-11-05T06:00:00Z,insert,0,\n"
    for day in (1, 2, 3, 4)
    for n in (1, 2)
)
LATE_SALES = (
    SALES_HEADER
    + "s13,south,2024-11-01T18:00:00Z,5.00,3,2024-11-06T06:00:00Z,insert,0,\n"  # late by four days
    + "s41,north,2024-11-03T23:00:00Z,10.00,1,2024-11-06T06:00:00Z,correct,1,s41\n"  # moves from the 4th to the 3rd
)
REFUND = SALES_HEADER + "s23,north,2024-11-02T18:00:00Z,-4.00,2,2024-11-07T06:00:00Z,insert,0,\n"  # fails amount_is_positive
#: Arrival days that :func:`deliver_sales` is asked for most.
FIRST_DAY, SECOND_DAY = date(2024, 11, 5), date(2024, 11, 6)


def deliver_sales(lake: Lake, day: date, *sales: str) -> None:
    """Put a file of an arrival day into landing; each sale is ``id@event day``."""
    lines = []
    for sale in sales:
        sale_id, event_day = sale.split("@")
        lines.append(f"{sale_id},north,{event_day}T10:00:00Z,10.00,1,{day}T06:00:00Z,insert,0,\n")
    Path(str(lake.settings.landing), f"arrival_date={day}.csv").write_text(SALES_HEADER + "".join(lines))
