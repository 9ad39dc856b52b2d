"""The words of the embedded corpus, in English, German and French.

A word is a row of a table: its English lemma, what it can do in a sentence, and those of its forms that a dictionary
has to tell. Regular forms (endings, elisions) and the order of words are computed in `toy_grammar`; `toy` makes
the corpus.
"""

from typing import Literal, TypeVar

import msgspec

Language = Literal["en", "de", "fr"]
Case = Literal["nominative", "accusative", "dative"]
Tense = Literal["present", "past"]
NounClass = Literal["adult", "child", "animal", "thing", "place"]
Determiner = Literal["the", "a", "this", "my"]


class GermanNoun(msgspec.Struct, frozen=True, array_like=True):
    """Gender, both numbers, and the accusative and dative singular if another (der Junge, den Jungen)."""

    gender: Literal["m", "f", "n"]
    singular: str
    plural: str
    oblique_singular: str = ""


class FrenchNoun(msgspec.Struct, frozen=True, array_like=True):
    """Gender and both numbers."""

    gender: Literal["m", "f"]
    singular: str
    plural: str


class Noun(msgspec.Struct, frozen=True):
    """A noun; `name` is its English singular."""

    name: str
    en_plural: str
    noun_class: NounClass
    de: GermanNoun
    fr: FrenchNoun


class Adjective(msgspec.Struct, frozen=True):
    """An adjective: the German stem; the French forms ms, fs, mp, fp, and ms before a vowel if another."""

    name: str
    noun_classes: tuple[NounClass, ...]
    de_stem: str
    fr_precedes: bool
    fr_forms: tuple[str, ...]


class GermanVerb(msgspec.Struct, frozen=True, array_like=True):
    """Third persons and participle; what the object takes; the auxiliary of the perfect; the separable prefix."""

    singular: str
    plural: str
    participle: str
    case: Case = "accusative"
    preposition: str = ""
    auxiliary: Literal["haben", "sein"] = "haben"
    prefix: str = ""


class FrenchVerb(msgspec.Struct, frozen=True, array_like=True):
    """Third persons and participle, the preposition before the object, the auxiliary of the perfect."""

    singular: str
    plural: str
    participle: str
    preposition: str = ""
    auxiliary: Literal["avoir", "être"] = "avoir"


class Verb(msgspec.Struct, frozen=True):
    """A verb's forms in three languages; `name` is its plain English form with the preposition before the object."""

    name: str
    en_past: str
    de: GermanVerb
    fr: FrenchVerb


class VerbRoles(msgspec.Struct, frozen=True):
    """The nouns that a verb joins.

    `negates_a`: the object may be "not ... a", which is "kein" in German and "pas de" in French.
    `has_recipient`: somebody gets the object or is shown it.
    """

    name: str
    subject_classes: tuple[NounClass, ...]
    object_classes: tuple[NounClass, ...]
    object_determiners: tuple[Determiner, ...]
    negates_a: bool
    has_recipient: bool


class Phrase(msgspec.Struct, frozen=True):
    """A fixed phrase in three languages."""

    en: str
    de: str
    fr: str


class Time(Phrase, frozen=True):
    """When something happens, and the tense that goes with it."""

    tense: Tense


class Conjunction(Phrase, frozen=True):
    """What opens a subordinate clause; `allows_past` in either clause, in any mixture."""

    allows_past: bool


_Row = TypeVar("_Row", Noun, Adjective, Verb, VerbRoles, Phrase, Time, Conjunction)


def _read_table(table: str, row_type: type[_Row]) -> dict[str, _Row]:
    """Read rows of `|`-separated cells under a header of field names, keyed by first cell.

    A cell with a comma is a list, one that ends in a comma a list of one; a dash is an empty text.
    """

    def value(cell: str) -> str | list[str]:
        parts = ["" if part.strip() == "-" else part.strip() for part in cell.removesuffix(",").split(",")]
        return parts if "," in cell else parts[0]

    header, *lines = ([cell.strip() for cell in line.split("|")] for line in table.strip().split("\n"))
    rows = [{name: value(cell) for name, cell in zip(header, line, strict=True)} for line in lines]
    # not strict: the texts 0 and 1 are booleans
    return {line[0]: msgspec.convert(row, row_type, strict=False) for line, row in zip(lines, rows, strict=True)}


NOUNS = _read_table(
    """
name          | en_plural      | noun_class | de                            | fr
man           | men            | adult      | m, Mann, Männer               | m, homme, hommes
woman         | women          | adult      | f, Frau, Frauen               | f, femme, femmes
teacher       | teachers       | adult      | m, Lehrer, Lehrer             | m, professeur, professeurs
doctor        | doctors        | adult      | m, Arzt, Ärzte                | m, médecin, médecins
queen         | queens         | adult      | f, Königin, Königinnen        | f, reine, reines
farmer        | farmers        | adult      | m, Bauer, Bauern, Bauern      | m, fermier, fermiers
child         | children       | child      | n, Kind, Kinder               | m, enfant, enfants
boy           | boys           | child      | m, Junge, Jungen, Jungen      | m, garçon, garçons
girl          | girls          | child      | n, Mädchen, Mädchen           | f, fille, filles
dog           | dogs           | animal     | m, Hund, Hunde                | m, chien, chiens
cat           | cats           | animal     | f, Katze, Katzen              | m, chat, chats
horse         | horses         | animal     | n, Pferd, Pferde              | m, cheval, chevaux
bird          | birds          | animal     | m, Vogel, Vögel               | m, oiseau, oiseaux
book          | books          | thing      | n, Buch, Bücher               | m, livre, livres
house         | houses         | thing      | n, Haus, Häuser               | f, maison, maisons
letter        | letters        | thing      | m, Brief, Briefe              | f, lettre, lettres
apple         | apples         | thing      | m, Apfel, Äpfel               | f, pomme, pommes
key           | keys           | thing      | m, Schlüssel, Schlüssel       | f, clé, clés
clock         | clocks         | thing      | f, Uhr, Uhren                 | f, horloge, horloges
bicycle       | bicycles       | thing      | n, Fahrrad, Fahrräder         | m, vélo, vélos
winter coat   | winter coats   | thing      | m, Wintermantel, Wintermäntel | m, manteau d'hiver, manteaux d'hiver
kitchen table | kitchen tables | thing      | m, Küchentisch, Küchentische  | f, table de cuisine, tables de cuisine
kitchen knife | kitchen knives | thing      | n, Küchenmesser, Küchenmesser | m, couteau de cuisine, couteaux de cuisine
apple tree    | apple trees    | thing      | m, Apfelbaum, Apfelbäume      | m, pommier, pommiers
market        | markets        | place      | m, Markt, Märkte              | m, marché, marchés
station       | stations       | place      | m, Bahnhof, Bahnhöfe          | f, gare, gares
school        | schools        | place      | f, Schule, Schulen            | f, école, écoles
hospital      | hospitals      | place      | n, Krankenhaus, Krankenhäuser | m, hôpital, hôpitaux
town hall     | town halls     | place      | n, Rathaus, Rathäuser         | f, mairie, mairies
""",
    Noun,
)

ADJECTIVES = _read_table(
    """
name      | noun_classes                | de_stem | fr_precedes | fr_forms
small     | child, animal, thing, place | klein   | 1           | petit, petite, petits, petites
big       | animal, thing, place        | groß    | 1           | grand, grande, grands, grandes
old       | adult, animal, thing, place | alt     | 1           | vieux, vieille, vieux, vieilles, vieil
young     | adult, animal               | jung    | 1           | jeune, jeune, jeunes, jeunes
beautiful | animal, thing, place        | schön   | 1           | beau, belle, beaux, belles, bel
black     | animal, thing               | schwarz | 0           | noir, noire, noirs, noires
white     | animal, thing               | weiß    | 0           | blanc, blanche, blancs, blanches
red       | thing,                      | rot     | 0           | rouge, rouge, rouges, rouges
expensive | thing,                      | teur    | 0           | cher, chère, chers, chères
heavy     | thing,                      | schwer  | 0           | lourd, lourde, lourds, lourdes
tired     | adult, child, animal        | müd     | 0           | fatigué, fatiguée, fatigués, fatiguées
clever    | adult, child, animal        | klug    | 0           | intelligent, intelligente, intelligents, intelligentes
""",
    Adjective,
)

VERBS = _read_table(
    """
name        | en_past  | de                                                       | fr
see         | saw      | sieht, sehen, gesehen                                    | voit, voient, vu
look for    | looked   | sucht, suchen, gesucht                                   | cherche, cherchent, cherché
buy         | bought   | kauft, kaufen, gekauft                                   | achète, achètent, acheté
lose        | lost     | verliert, verlieren, verloren                            | perd, perdent, perdu
love        | loved    | liebt, lieben, geliebt                                   | aime, aiment, aimé
invite      | invited  | lädt, laden, eingeladen, accusative, -, haben, ein       | invite, invitent, invité
phone       | phoned   | ruft, rufen, angerufen, accusative, -, haben, an         | téléphone, téléphonent, téléphoné, à
help        | helped   | hilft, helfen, geholfen, dative                          | aide, aident, aidé
follow      | followed | folgt, folgen, gefolgt, dative, -, sein                  | suit, suivent, suivi
answer      | answered | antwortet, antworten, geantwortet, dative                | répond, répondent, répondu, à
talk about  | talked   | spricht, sprechen, gesprochen, accusative, über          | parle, parlent, parlé, de
wait for    | waited   | wartet, warten, gewartet, accusative, auf                | attend, attendent, attendu
go to       | went     | geht, gehen, gegangen, dative, zu, sein                  | va, vont, allé, à, être
return from | returned | kommt, kommen, zurückgekommen, dative, von, sein, zurück | rentre, rentrent, rentré, de, être
give        | gave     | gibt, geben, gegeben                                     | donne, donnent, donné
show        | showed   | zeigt, zeigen, gezeigt                                   | montre, montrent, montré
""",
    Verb,
)

VERB_ROLES = _read_table(
    """
name        | subject_classes      | object_classes                     | object_determiners | negates_a | has_recipient
see         | adult, child, animal | adult, child, animal, thing, place | the, a, this, my   | 1         | 0
look for    | adult, child, animal | adult, child, animal, thing, place | the, a, this, my   | 1         | 0
buy         | adult, child         | animal, thing                      | the, a, this, my   | 1         | 0
lose        | adult, child         | thing,                             | the, a, this, my   | 1         | 0
love        | adult, child, animal | adult, child, animal               | the, a, this, my   | 0         | 0
invite      | adult, child         | adult, child                       | the, a, this, my   | 1         | 0
phone       | adult, child         | adult, child                       | the, a, this, my   | 0         | 0
help        | adult, child         | adult, child, animal               | the, a, this, my   | 0         | 0
follow      | adult, child, animal | adult, child, animal               | the, a, this, my   | 0         | 0
answer      | adult, child         | adult, child                       | the, a, this, my   | 0         | 0
talk about  | adult, child         | adult, child, animal, thing, place | the, a, this, my   | 0         | 0
wait for    | adult, child, animal | adult, child, animal               | the, a, this, my   | 0         | 0
go to       | adult, child, animal | place,                             | the,               | 0         | 0
return from | adult, child, animal | place,                             | the,               | 0         | 0
give        | adult, child         | thing,                             | the, a, this, my   | 1         | 1
show        | adult, child         | animal, thing, place               | the, a, this, my   | 1         | 1
""",
    VerbRoles,
)

TIMES = _read_table(
    """
en            | de             | fr                  | tense
today         | heute          | aujourd'hui         | present
every morning | jeden Morgen   | chaque matin        | present
in winter     | im Winter      | en hiver            | present
on Sundays    | sonntags       | le dimanche         | present
yesterday     | gestern        | hier                | past
recently      | neulich        | récemment           | past
last week     | letzte Woche   | la semaine dernière | past
last summer   | letzten Sommer | l'été dernier       | past
""",
    Time,
)

OPENERS = _read_table(
    """
en          | de         | fr
I know      | ich weiß   | je sais
we hope     | wir hoffen | nous espérons
she says    | sie sagt   | elle dit
he believes | er glaubt  | il croit
""",
    Phrase,
)

CONJUNCTIONS = _read_table(
    """
en      | de      | fr          | allows_past
because | weil    | parce que   | 1
when    | wenn    | quand       | 0
if      | wenn    | si          | 0
while   | während | pendant que | 0
""",
    Conjunction,
)

# what a pocket dictionary says of the words that are no rows above
GLOSSES = {
    en: (de, fr)
    for line in """
the die le; a ein un; an ein un; some einige quelques; this dieser ce
these diese ces; my mein mon; not nicht pas; does tut fait; do tun font
did tat fait; that dass que; because weil parce; when wenn quand; if wenn si
while während pendant; i ich je; we wir nous; she sie elle; he er il
know weiß sais; hope hoffen espérons; says sagt dit; believes glaubt croit; for für pour
about über de; to zu à; from von de; winter Winter hiver; coat Mantel manteau
coats Mäntel manteaux; kitchen Küche cuisine; table Tisch table; tables Tische tables; knife Messer couteau
knives Messer couteaux; tree Baum arbre; trees Bäume arbres; town Stadt ville; hall Halle salle
halls Hallen salles; today heute aujourd'hui; every jeden chaque; morning Morgen matin; in im en
on an le; sundays sonntags dimanche; yesterday gestern hier; recently neulich récemment; last letzte dernière
week Woche semaine; summer Sommer été
""".strip().split("\n")
    for en, de, fr in (entry.split() for entry in line.split(";"))
}
