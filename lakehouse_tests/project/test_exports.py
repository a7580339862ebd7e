"""Exports of real systems: the key, the event time and the types are what a careful reader would write, or are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakehouse.project.questions import InferenceError
from lakehouse_tests.support.inferred_files import infer_file

if TYPE_CHECKING:
    from pathlib import Path


class Export(NamedTuple):
    """A file, and what its contract has.

    :param questions: what is asked about. ``days`` is the number of event days.
    """

    file: str
    content: str
    key: list[str]
    event: str
    types: dict[str, str]
    questions: list[str]
    days: int


EXPORTS = {
    "stripe": Export(
        "balance.csv",
        """\
id,Type,Source,Amount,Fee,Net,Currency,Created (UTC),Available On (UTC),Description
txn_1A,charge,ch_1,100.00,3.20,96.80,usd,2024-11-04 10:00,2024-11-06 00:00,Order 1
txn_1B,refund,re_1,-20.00,0.00,-20.00,usd,2024-11-04 11:30,2024-11-06 00:00,Refund 1
txn_1C,charge,ch_2,"1,250.00",36.55,"1,213.45",usd,2024-11-05 09:15,2024-11-07 00:00,Order 2
""",
        ["id"],
        "Created (UTC)",
        {"amount": "decimal(20,4)", "net": "decimal(20,4)"},
        [],
        2,
    ),
    "salesforce": Export(
        "Opportunity.csv",
        """\
Id,IsDeleted,Name,StageName,Amount,CloseDate,CreatedDate,LastModifiedDate,SystemModstamp
0065g00000A1,false,Acme,Closed Won,15000.0,2024-12-31,2024-11-04T10:00:00.000Z,2024-11-05T10:00:00.000Z,2024-11-05T10:00:01.000Z
0065g00000A2,false,Beta,Prospecting,,2025-01-31,2024-11-04T11:00:00.000Z,2024-11-04T11:00:00.000Z,2024-11-04T11:00:00.000Z
0065g00000A3,false,Ceta,Prospecting,2000.0,2025-01-31,2024-11-04T12:00:00.000Z,2024-11-04T12:00:00.000Z,2024-11-04T12:00:00.000Z
""",
        ["id"],
        "CreatedDate",
        {"amount": "decimal(20,4)", "close_date": "date"},
        [],
        1,
    ),
    "sap": Export(
        "vbrp.csv",
        """\
MANDT;VBELN;POSNR;FKIMG;VRKME;NETWR;WAERK;ERDAT;ERZET;MATNR
100;0090000001;000010;5,000;ST;1.250,00;EUR;20241104;101500;000000000000001234
100;0090000001;000020;1,000;ST;99,90;EUR;20241104;101500;000000000000001235
100;0090000002;000010;2,000;ST;10,00-;EUR;20241105;090000;000000000000001234
""",
        ["vbeln", "posnr"],
        "ERDAT",
        {"netwr": "decimal(20,4)", "fkimg": "decimal(21,5)"},
        ["column FKIMG"],
        2,
    ),
    "google_analytics": Export(
        "sessions.csv",
        """\
# ----------------------------------------
# Sessions by day
# Start date: 20241101
# ----------------------------------------
Date,Session source / medium,Sessions,Engagement rate,Total revenue
20241104,google / organic,120,0.5423,100.5
20241104,(direct) / (none),80,0.41,0
20241105,google / organic,130,0.55,88.2
""",
        ["session_source_medium", "date"],
        "Date",
        {"sessions": "bigint"},
        ["primary_key"],
        2,
    ),
    "aws_cost_and_usage": Export(
        "cur.csv",
        """\
identity/LineItemId,identity/TimeInterval,bill/PayerAccountId,lineItem/UsageAccountId,lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/ProductCode,lineItem/UsageAmount,lineItem/UnblendedCost
abc1,2024-11-04T00:00:00Z/2024-11-04T01:00:00Z,123456789012,123456789012,Usage,2024-11-04T00:00:00Z,2024-11-04T01:00:00Z,AmazonEC2,1.0000000000,0.0116000000
abc2,2024-11-04T01:00:00Z/2024-11-04T02:00:00Z,123456789012,123456789012,Usage,2024-11-04T01:00:00Z,2024-11-04T02:00:00Z,AmazonEC2,1.0000000000,0.0116000000
abc1,2024-11-04T01:00:00Z/2024-11-04T02:00:00Z,123456789012,123456789012,Usage,2024-11-04T01:00:00Z,2024-11-04T02:00:00Z,AmazonS3,0.5000000000,0.0000250000
""",
        ["identity_line_item_id", "line_item_usage_start_date"],
        "lineItem/UsageStartDate",
        {"line_item_unblended_cost": "decimal(28,12)"},
        ["primary_key"],
        1,
    ),
    "bank_german": Export(
        "umsaetze.csv",
        """\
Kontonummer;DE123;;;;
Zeitraum;01.11.2024 - 30.11.2024;;;;
Buchungstag;Valuta;Auftraggeber/Empfänger;Verwendungszweck;Betrag;Währung
04.11.2024;05.11.2024;Rewe;Einkauf;-23,45;EUR
04.11.2024;05.11.2024;Rewe;Einkauf;-23,45;EUR
15.11.2024;15.11.2024;Arbeitgeber;Gehalt;2.500,00;EUR
""",
        [],
        "Buchungstag",
        {"betrag": "decimal(20,4)"},
        ["clocks.event", "primary_key"],
        2,
    ),
    "mt940": Export(
        "mt940.csv",
        """\
"Account","StatementNo","ValueDate","EntryDate","DC","Amount","Currency","Reference","Details"
"NL91ABNA0417164300","00123","241104","1104","C","1250,00","EUR","NONREF","Invoice 17"
"NL91ABNA0417164300","00123","241104","1104","D","25,00","EUR","NONREF","Fee"
"NL91ABNA0417164300","00124","241105","1105","C","10,50","EUR","NONREF","Invoice 18"
""",
        [],
        "ValueDate",
        {"amount": "decimal(20,4)"},
        ["primary_key"],
        2,
    ),
    "weather_station": Export(
        "obs.csv",
        """\
station_id,valid,tmpf,dwpf,relh,sknt,p01i
KDSM,2024-11-04 00:53,45.00,39.00,79.38,5.00,0.00
KDSM,2024-11-04 01:53,M,39.00,79.38,5.00,T
KDSM,2024-11-04 02:53,44.10,38.00,79.00,4.00,0.01
""",
        ["station_id", "valid"],
        "valid",
        {"dwpf": "decimal(20,4)"},
        ["clocks.event"],
        1,
    ),
    "weather_service": Export(
        "produkt.txt",
        """\
STATIONS_ID;MESS_DATUM;QN_9;TT_TU;RF_TU;eor
         44;2024110400;    3;   8.1;  93.0;eor
         44;2024110401;    3;   7.9;  94.0;eor
         44;2024110402;    3;-999;-999;eor
""",
        ["stations_id", "mess_datum"],
        "MESS_DATUM",
        {"tt_tu": "decimal(20,4)"},
        ["null_values"],
        1,
    ),
    "smart_meter": Export(
        "readings.csv",
        """\
LCLid,tstp,energy(kWh/hh)
MAC000002,2024-11-04 00:00:00.0000000,0.12
MAC000002,2024-11-04 00:30:00.0000000,0.1
MAC000003,2024-11-04 00:00:00.0000000,Null
""",
        ["lclid", "tstp"],
        "tstp",
        {"energy_k_wh_hh": "decimal(20,4)"},
        ["primary_key"],
        1,
    ),
    "hospital": Export(
        "hospital.csv",
        """\
report_date,trust_code,trust_name,admissions,occupied_beds,icu_beds
2024-11-04,RA1,North,12,340,15
2024-11-04,RA2,South,<5,210,8
2024-11-05,RA1,North,14,338,16
2024-11-05,RA2,South,7,215,9
""",
        ["trust_code", "report_date"],
        "report_date",
        {"admissions": "string", "icu_beds": "bigint"},
        [],
        2,
    ),
    "parcel_scans": Export(
        "scans.csv",
        """\
tracking_no,event_code,event_time,depot,weight_kg
1Z999AA10123456784,PU,2024-11-04T08:00:00+01:00,KOELN,1.2
1Z999AA10123456784,DEP,2024-11-04T20:15:00+01:00,KOELN,1.2
1Z999AA10123456785,PU,2024-11-04T09:00:00+01:00,BONN,0.4
""",
        ["tracking_no", "event_time"],
        "event_time",
        {"tracking_no": "string"},
        ["clocks.timezone", "primary_key"],
        1,
    ),
    "airline": Export(
        "ontime.csv",
        """\
FL_DATE,OP_CARRIER,OP_CARRIER_FL_NUM,ORIGIN,DEST,CRS_DEP_TIME,DEP_TIME,DEP_DELAY,ARR_DELAY,CANCELLED
11/4/2024 12:00:00 AM,AA,1,JFK,LAX,0800,0812,12.00,5.00,0.00
11/4/2024 12:00:00 AM,AA,2,LAX,JFK,0900,,,,1.00
11/15/2024 12:00:00 AM,AA,1,JFK,LAX,0800,0759,-1.00,-10.00,0.00
""",
        ["op_carrier_fl_num", "fl_date"],
        "FL_DATE",
        {"fl_date": "date", "dep_time": "string"},
        [],
        2,
    ),
    "erp_german": Export(
        "belege.csv",
        """\
Belegnr;Pos;Datum;Kunde;Artikel;Menge;Einzelpreis;Betrag
4711;1;04.11.2024;K100;A-1;10;1,99;19,90
4711;2;04.11.2024;K100;A-2;1;1.250,00;1.250,00
4712;1;15.11.2024;K200;A-1;5;1,99;9,95
""",
        ["belegnr", "pos"],
        "Datum",
        {"betrag": "decimal(20,4)"},
        [],
        2,
    ),
    "french": Export(
        "ventes.csv",
        """\
Numéro;Date de vente;Montant HT;Montant TTC
F-001;04/11/2024;1 250,00 €;1 500,00 €
F-002;15/11/2024;99,90 €;119,88 €
""",
        ["numero"],
        "Date de vente",
        {"montant_ht": "decimal(20,4)"},
        [],
        2,
    ),
    "india": Export(
        "sales.csv",
        """\
Invoice No,Invoice Date,Party Name,Amount
INV/24-25/001,04-11-2024,Ravi,"1,25,000.00"
INV/24-25/002,15-11-2024,Asha,"5,500.00"
INV/24-25/003,16-11-2024,Asha,950.00
""",
        ["invoice_no"],
        "Invoice Date",
        {"amount": "decimal(20,4)"},
        [],
        3,
    ),
    "us_dates": Export(
        "invoices.csv",
        """\
Invoice #,Date,Customer,Amount
1001,11/4/2024,Acme,"$1,250.00"
1002,11/5/2024,Beta,$99.90
1003,11/6/2024,Acme,($20.00)
""",
        ["invoice"],
        "Date",
        {"amount": "decimal(20,4)"},
        ["column Date"],
        3,
    ),
    "iso_weeks": Export(
        "weekly.csv",
        """\
week,country,cases
2024-W44,DE,100
2024-W44,FR,80
2024-W45,DE,90
""",
        ["country", "week"],
        "week",
        {"cases": "bigint"},
        [],
        2,
    ),
    "epoch_seconds": Export(
        "events.csv",
        """\
event_id,user_id,timestamp,value
e1,u1,1730714400,1.5
e2,u1,1730714460,2.5
""",
        ["event_id"],
        "timestamp",
        {"timestamp": "timestamp"},
        [],
        1,
    ),
    "epoch_milliseconds": Export(
        "events.json",
        """\
{"eventId":"e1","userId":"u1","eventTime":1730714400123,"value":1.5}
{"eventId":"e2","userId":"u1","eventTime":1730714460123,"value":2.5}
""",
        ["event_id"],
        "eventTime",
        {"event_time": "timestamp"},
        [],
        1,
    ),
    "epoch_microseconds_tabs": Export(
        "events.csv",
        """\
event_id\tevent_timestamp\tevent_name\tvalue
e1\t1730714400123456\tview\t1.5
e2\t1730714460123456\tbuy\t2.5
""",
        ["event_id"],
        "event_timestamp",
        {"event_timestamp": "timestamp"},
        [],
        1,
    ),
    "units_in_the_header": Export(
        "log.csv",
        """\
Date/Time;Flow [m³/h];Level (m);Temp (°C)
04.11.2024 00:00;12,5;1,20;8,1
04.11.2024 00:15;13,5;1,21;8,0
15.11.2024 00:30;12,0;1,19;7,9
""",
        ["date_time"],
        "Date/Time",
        {"flow_m3_h": "decimal(20,4)"},
        ["primary_key"],
        2,
    ),
    "two_headers": Export(
        "plan.csv",
        """\
Plant,Plant,Output,Output
id,date,planned,actual
P1,2024-11-04,100,95
P2,2024-11-04,50,52
""",
        ["id"],
        "date",
        {"planned": "bigint"},
        [],
        1,
    ),
    "json_array": Export(
        "rates.json",
        """\
[{"date":"2024-11-04","base":"EUR","currency":"USD","rate":1.0876},{"date":"2024-11-04","base":"EUR","currency":"GBP","rate":0.8399},{"date":"2024-11-05","base":"EUR","currency":"USD","rate":1.0910}]""",
        ["currency", "date"],
        "date",
        {"rate": "decimal(22,6)"},
        [],
        2,
    ),
    "shopify_json": Export(
        "orders.json",
        """\
{"id":820982911946154508,"created_at":"2024-11-04T16:09:54-05:00","total_price":"254.98","customer":{"id":115310627314723954},"line_items":[{"id":866550311766439020,"price":"199.00"}],"updated_at":"2024-11-04T16:10:00-05:00"}
{"id":820982911946154509,"created_at":"2024-11-04T17:09:54-05:00","total_price":"10.00","customer":{"id":115310627314723955},"line_items":[],"updated_at":"2024-11-05T16:10:00-05:00"}
""",
        ["id"],
        "created_at",
        {"total_price": "decimal(20,4)", "customer": "string"},
        ["clocks.timezone"],
        1,
    ),
    "paypal": Export(
        "Download.csv",
        """\
"Date","Time","TimeZone","Name","Type","Status","Currency","Gross","Fee","Net","Transaction ID"
"04/11/2024","10:15:00","Europe/Berlin","Ann","Payment","Completed","EUR","1.250,00","-35,20","1.214,80","9AB12345CD678901E"
"15/11/2024","11:15:00","Europe/Berlin","Bob","Refund","Completed","EUR","-20,00","0,00","-20,00","9AB12345CD678901F"
""",
        ["transaction_id"],
        "Date",
        {"gross": "decimal(20,4)"},
        [],
        2,
    ),
    "amazon_settlement": Export(
        "settlement.txt",
        """\
settlement-id\tsettlement-start-date\torder-id\tamount-type\tamount-description\tamount\tposted-date\tposted-date-time
111\t\t402-1\tItemPrice\tPrincipal\t19.99\t2024-11-04\t2024-11-04 10:11:12 UTC
111\t\t402-1\tItemPrice\tTax\t3.80\t2024-11-04\t2024-11-04 10:11:12 UTC
111\t\t402-2\tItemPrice\tPrincipal\t5.00\t2024-11-04\t2024-11-04 11:11:12 UTC
""",
        [],
        "posted-date-time",
        {"order_id": "string"},
        ["clocks.event", "primary_key"],
        1,
    ),
    "jira": Export(
        "issues.csv",
        """\
Issue key,Issue id,Status,Created,Updated,Story Points
AB-1,10001,Done,04/Nov/24 10:15 AM,05/Nov/24 9:00 AM,3
AB-2,10002,Open,04/Nov/24 11:15 AM,04/Nov/24 11:15 AM,
""",
        ["issue_id"],
        "Created",
        {"updated": "timestamp"},
        [],
        1,
    ),
    "bookings": Export(
        "bookings.csv",
        """\
booking_id,check_in_date,booked_at,updated_at,price
B1,2025-03-01,2024-11-04T10:00:00Z,2024-11-04T10:00:00Z,100.00
B2,2025-04-01,2024-11-04T11:00:00Z,2024-11-05T10:00:00Z,200.00
""",
        ["booking_id"],
        "booked_at",
        {"check_in_date": "date"},
        [],
        1,
    ),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_has_its_key_its_event_time_and_its_types_or_a_question(name: str, tmp_path: Path) -> None:
    export = EXPORTS[name]
    read = infer_file(tmp_path, export.file, export.content)
    assert (list(read.inferred.key), read.source.clocks.event) == (export.key, export.event)
    assert {field: read.types[field] for field in export.types} == export.types
    assert (sorted(read.questions), read.malformed) == (export.questions, [])
    assert (len(read.live), len({row["event_date"] for row in read.live})) == (len(read.rows), export.days)


QUALTRICS = (
    "StartDate,Progress,ResponseId,Q1\nStart Date,Progress,Response ID,How satisfied?\n"
    '"{""ImportId"":""startDate""}","{""ImportId"":""progress""}","{""ImportId"":""_recordId""}","{""ImportId"":""QID1""}"\n'
    + "".join(f"2024-11-04 10:0{number}:00,100,R_{number}a,{number}\n" for number in range(5))
)
UNITS = "plant_id,date,output\n-,-,t\n" + "".join(f"P{number},2024-11-04,{number}\n" for number in range(5))
LIST = '{"object":"list","data":[{"id":"ch_1","created":1730714400},{"id":"ch_2","created":1730718000}]}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("survey.csv", QUALTRICS, r"has no record in lines 2 and 3, .* sed 2,3d FILE > NEW"),
        ("plan.csv", UNITS, r"has no record in line 2, but units or formats \(t\); .* sed 2d FILE > NEW"),
        ("charges.json", LIST, r"is one object with its records in 'data'; .* jq -c '\.data\[\]'"),
    ],
)
def test_an_export_that_is_not_read_is_refused_with_the_way(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match=message):
        infer_file(tmp_path, name, content)


T = "2024-11-04T09:00:00Z"


@pytest.mark.parametrize(
    ("content", "doubt"),
    [
        (
            "meter_id,date,00:00,00:30,01:00\nM1,2024-11-04,1.5,2.5,3.5\n",
            "columns 00:00 to 01:00 hold the values of a time",
        ),
        (f"id,at,status,amount\n1,{T},paid,1.50\n2,{T},Cancelled,9.50\n", "column status has 'Cancelled' among its values"),
        (f"id,at,dc,amount\n1,{T},C,1.50\n2,{T},D,9.50\n", "column dc has debits and credits: if the amounts have no sign"),
    ],
)
def test_what_makes_sums_wrong_is_told(content: str, doubt: str, tmp_path: Path) -> None:
    assert any(each.startswith(doubt) for each in infer_file(tmp_path, "log.csv", content).inferred.doubts)


def test_an_identifier_with_a_point_is_a_text_and_a_count_of_the_dataset_is_no_key(tmp_path: Path) -> None:
    read = infer_file(tmp_path, "visits.csv", f"user_id,at,visits\n1.20,{T},5\n1.2,{T},6\n")
    assert (read.types["user_id"], read.source.primary_key) == ("string", ["user_id", "at"])
    assert len(read.live) == 2


@pytest.mark.parametrize(
    ("first", "second", "default"),
    [
        ("1,5", "2,250", "1.234,56"),  # the column beside it has a decimal comma
        ("1,500.50", "2,250", "1,234.56"),
        ("25/11/2024", "04/11/2024", "%d/%m/%Y"),
        ("11/25/2024", "11/04/2024", "%m/%d/%Y"),
    ],
)
def test_the_default_of_two_readings_is_that_of_other_columns(first: str, second: str, default: str, tmp_path: Path) -> None:
    read = infer_file(tmp_path, "log.csv", f"id;at;x;y\n1;{T};{first};{second}\n")
    assert read.questions["column y"][0] == default
    assert read.source.source.formats["y"] == default


def test_the_default_of_two_readings_of_days_is_that_with_days_close_together(tmp_path: Path) -> None:
    for rows, default in (("11/4/2024,11/5/2024", "%m/%d/%Y"), ("4/11/2024,5/11/2024", "%d/%m/%Y")):
        content = "".join(f"{number},{day}\n" for number, day in enumerate(rows.split(",")))
        assert infer_file(tmp_path, "log.csv", f"id,day\n{content}").questions["column day"][0] == default


def test_a_time_that_is_always_midnight_is_a_day(tmp_path: Path) -> None:
    days = "".join(f"{day},11/{day}/2024 12:00:00 AM\n" for day in (13, 14, 15))
    read = infer_file(tmp_path, "log.csv", f"id,day\n{days}")
    assert (read.types["day"], read.source.source.formats) == ("date", {"day": "%m/%d/%Y 12:00:00 AM"})
    times = infer_file(tmp_path, "log.csv", f"id,day\n{days}16,11/16/2024 9:00:00 AM\n")
    assert times.types["day"] == "timestamp"


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("2024110413", "%Y%m%d%H"),
        ("202411041305", "%Y%m%d%H%M"),
        ("20241104130500", "%Y%m%d%H%M%S"),
        ("241104", "%y%m%d"),
        ("04/Nov/24 10:15 AM", "%d/%b/%y %I:%M %p"),
    ],
)
def test_more_times_of_digits_are_read(value: str, form: str, tmp_path: Path) -> None:
    read = infer_file(tmp_path, "log.csv", f"id,ERDAT\n1,{value}\n")
    assert (read.source.source.formats, read.malformed, read.questions) == ({"ERDAT": form}, [], {})
    assert f"{read.rows[0]['event_date']}" == "2024-11-04"


def test_the_contracts_of_exports_name_their_defaults(tmp_path: Path) -> None:
    read = infer_file(tmp_path, *EXPORTS["amazon_settlement"][:2])
    assert read.text.count("--yes took the default: ") == len(read.questions) == 2


def test_one_letter_is_no_truth_value_and_a_flag_is_in_no_sum(tmp_path: Path) -> None:
    read = infer_file(tmp_path, "log.csv", f"id,at,shop,is_new,paid\n1,{T},n,1,y\n2,{T},n,0,n\n")
    assert (read.types["shop"], read.types["paid"]) == ("string", "boolean")
    assert [measure.name for measure in read.metric.measures] == ["records"]


def test_times_finer_than_a_microsecond_are_told(tmp_path: Path) -> None:
    read = infer_file(tmp_path, "log.csv", f"id,at,seen\n1,{T},2024-11-04T10:00:00.123456789Z\n")
    assert "column seen: has times finer than a microsecond: have them sent with six digits" in read.text
