"""Words of the generated prompts: nine fields of work, and what all of them share.

Verbs and nouns are regular, so that `past`, `third`, `gerund` and `plural` are right.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One field of work: its name, and its words."""

    name: str
    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    roles: tuple[str, ...]


def choices(text: str) -> tuple[str, ...]:
    """The parts of a text between its bars."""
    return tuple(text.split("|"))


def _words(text: str) -> tuple[str, ...]:
    """Words between spaces; an underscore is a space within one."""
    return tuple(word.replace("_", " ") for word in text.split())


def _field(name: str, nouns: str, verbs: str, adjectives: str, roles: str) -> Field:
    return Field(name, _words(nouns), _words(verbs), _words(adjectives), _words(roles))


FIELDS = (
    _field(
        "harbour logistics",
        "berth vessel container crane manifest tugboat pilot_ladder quay barge cargo_hold mooring_line "
        "tide_table customs_seal reefer gantry stowage_plan lighthouse breakwater freight_rate shipping_lane "
        "anchor bollard",
        "unload dock tow moor weigh seal reroute inspect charter stow lash berth dredge clear",
        "seaworthy overdue refrigerated hazardous transatlantic congested bonded empty leaking coastal idle heavy",
        "harbourmaster stevedore customs_officer crane_operator shipping_agent chief_engineer",
    ),
    _field(
        "field botany",
        "seedling orchid herbarium pollinator rhizome hillside canopy sepal lichen greenhouse meadow "
        "root_system specimen spore graft germination_rate soil_sample hedge wetland nectar_guide pod bark",
        "germinate collect press prune pollinate catalogue transplant flower wither colonise water label graft",
        "perennial alpine invasive variegated dormant native waxy shade-tolerant fragile parasitic fertile drooping",
        "botanist ranger curator gardener seed_collector ecologist",
    ),
    _field(
        "observational astronomy",
        "telescope nebula asteroid spectrum exposure pulsar light_curve transit parallax detector "
        "filter_wheel calibration_frame quasar eclipse orbit redshift dome mirror photon star_cluster "
        "magnitude drift",
        "observe calibrate expose resolve track align detect measure stack reject guide eclipse orbit",
        "faint variable binary infrared saturated cryogenic distant luminous periodic noisy overexposed circumpolar",
        "astronomer night_assistant instrument_scientist telescope_operator surveyor doctoral_student",
    ),
    _field(
        "database operations",
        "replica index shard query_plan transaction lock backup checkpoint schema_migration connection_pool "
        "tablespace deadlock snapshot vacuum_job partition cursor failover_node write-ahead_log cache page "
        "tenant row",
        "replicate index restore compact partition throttle migrate truncate lock audit archive flush vacuum",
        "stale read-only consistent bloated orphaned idempotent corrupted sharded nightly hot cold unindexed",
        "database_administrator on-call_engineer data_steward release_manager analyst platform_lead",
    ),
    _field(
        "hospital administration",
        "ward referral discharge_note roster bed triage_desk prescription outpatient clinic ventilator "
        "consent_form billing_code appointment stretcher lab_result ambulance operating_theatre vaccine "
        "isolation_room chart nurse_station",
        "register discharge assess prescribe consult examine monitor relocate sterilise document treat reassure",
        "paediatric urgent chronic sterile overbooked infectious elective ambulatory diagnostic insured elderly acute",
        "matron registrar pharmacist porter physiotherapist bed_manager anaesthetist",
    ),
    _field(
        "bread and pastry",
        "sourdough_starter oven proofing_basket croissant rye_loaf glaze dough_hook flour_blend butter_block "
        "crumb crust baguette filling yeast_culture baking_stone pastry_case brioche recipe tray timer mixer "
        "scale",
        "knead bake glaze laminate ferment shape chill toast dust flavour score whisk slice",
        "crusty overproofed buttery gluten-free lukewarm golden dense flaky sour wholegrain sticky salted",
        "baker apprentice pastry_chef miller shop_manager food_inspector",
    ),
    _field(
        "railway engineering",
        "signal_box turnout axle_counter locomotive ballast timetable platform level_crossing overhead_wire "
        "bogie rail_joint tunnel_portal coupling freight_path block_section interlocking sleeper viaduct "
        "gradient points_motor siding",
        "brake couple extend inspect shunt signal grind lubricate delay reroute tamp depart derail",
        "single-track electrified narrow-gauge rusted punctual bidirectional overloaded steep obsolete "
        "regional frozen automatic",
        "signaller train_driver track_engineer dispatcher conductor maintenance_planner",
    ),
    _field(
        "museum conservation",
        "fresco tapestry pigment varnish display_case loan_agreement parchment humidity_logger bronze_figure "
        "canvas crate gilded_frame accession_number manuscript restoration_report textile microscope archive "
        "plinth fragment catalogue",
        "restore varnish catalogue clean exhibit insure photograph consolidate loan repair frame examine date",
        "medieval brittle lacquered unsigned faded provenanced water-damaged gilded fragmentary anonymous "
        "priceless cracked",
        "conservator curator registrar courier art_historian gallery_technician",
    ),
    _field(
        "river hydrology",
        "gauge floodplain reservoir sediment_load weir culvert catchment rainfall_record spillway aquifer "
        "turbine_intake levee flow_meter confluence dam_crest snowpack drought_index bank estuary pump "
        "fish_ladder tributary",
        "drain flood meter divert erode forecast sample dredge recharge overflow gauge breach discharge",
        "turbid seasonal embanked upstream brackish gauged silted regulated torrential shallow perched contaminated",
        "hydrologist dam_operator surveyor flood_warden water_chemist civil_engineer",
    ),
)

NOUNS = _words(
    "report schedule budget deadline supplier contract inspection complaint estimate proposal survey "
    "warehouse committee invoice checklist permit dispute forecast sensor photograph laptop corridor "
    "neighbour volunteer memo guideline shortage accident rumour handbook signature receipt toolbox alarm "
    "shift pattern threshold journey visitor prototype disagreement margin footnote overlap backlog "
    "assumption exception benchmark staircase lantern bicycle archive rehearsal mortgage orchard compass "
    "envelope ladder curtain treaty saddle kitchen notebook blanket festival whistle basket pension garage "
    "newspaper stranger umbrella mirror election bottle winter carpet sandwich licence channel temple engine "
    "holiday gallery balcony tunnel riddle puzzle"
)
VERBS = _words(
    "question approve delay describe record compare reject explain review replace discover mention support "
    "measure postpone welcome repeat finance overlook confirm adjust defend outline challenge borrow paint "
    "rescue translate interrupt polish invent rehearse unpack soften inherit resent calculate annotate renew "
    "invite count"
)
ADJECTIVES = _words(
    "unexpected careful small expensive recent reliable second doubtful annual thorough local temporary quiet "
    "awkward modest confidential remote plausible familiar ambitious rough costly sudden long-awaited unusual "
    "practical incomplete handwritten preliminary routine independent generous wooden damp brilliant narrow "
    "foreign transparent silent fragile enormous obvious northern polite broken metallic circular delicate "
    "vague hollow permanent humid rural elegant stubborn scarce yellow"
)
ADVERBS = _words(
    "quietly twice reluctantly in_haste overnight without_comment by_hand carefully at_last partly on_paper "
    "immediately in_public with_some_relief grudgingly before_noon again from_memory in_stages correctly"
)
OPENERS = choices(
    "According to the minutes,|In practice,|By contrast,|A week later,|As a rule,|On closer "
    "inspection,|Oddly,|For that reason,|Before the rains came,|Against all advice,|Under the old "
    "agreement,|Not surprisingly,|At the next meeting,|During the night,|To everyone's surprise,|After "
    "lunch,|Strictly speaking,|In the meantime,|Because nobody had asked,|With hindsight,|Towards the end of "
    "the season,|Once more,|Off the record,|From the start,|If the log can be trusted,|Elsewhere,"
)
LINKS = choices(
    ", because | although |, and |; meanwhile, |, so that | while | until |, even though |; in return, |, "
    "whereas | after |, but | before |: in short, |, since |, yet"
)
GIVEN_NAMES = _words(
    "Amara Bjorn Celeste Dmitri Esra Farid Greta Hiroshi Ingrid Joao Kwame Leila Marek Nadia Oskar Priya "
    "Quentin Rosa Samir Tamsin Ulrike Viktor Wanjiru Xenia Yusuf Zofia Anselm Beatriz Caoimhe Dov Eleni "
    "Fergus"
)
FAMILY_NAMES = _words(
    "Okafor Lindqvist Marchetti Sorensen Haddad Kowalczyk Nakamura Ferreira Novak Abernathy Mbeki Castellanos "
    "Dubois Eriksen Fontaine Grigoryan Halloran Ibrahim Jankowski Kaplan Lemaire Moreau Nyambura Ostrowski "
    "Petrov Quispe Rasmussen Szabo Tanaka Uribe Vasquez Whitfield"
)
PLACES = _words(
    "Tromso Valparaiso Rotterdam Kisumu Gdansk Halifax Trieste Nagasaki Cork Odessa Bergen Fremantle Tartu "
    "Oaxaca Leuven Kochi Aarhus Split Dunedin Esbjerg Matera Ghent Visby Cadiz Lublin Sibiu Galway Turku "
    "Mombasa Quito"
)
MONTHS = _words("January February March April May June July August September October November December")
UNITS = _words("metres kilograms hours degrees litres percent euros minutes pages tonnes seconds kilometres")
CONSTANTS = _words("limit margin offset weight ratio quota window budget floor ceiling scale")


def past(verb: str) -> str:
    return verb + ("d" if verb.endswith("e") else "ed")


def third(verb: str) -> str:
    return verb + ("es" if verb.endswith(("sh", "ch", "ss", "x")) else "s")


def gerund(verb: str) -> str:
    return verb[:-1] + "ing" if verb.endswith("e") else verb + "ing"


def plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")
