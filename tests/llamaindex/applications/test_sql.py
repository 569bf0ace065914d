"""Questions in words to a database: its rows are records, and a value of another row does not count."""

import sqlalchemy
from llama_index.core import SQLDatabase
from llama_index.core.query_engine import NLSQLTableQueryEngine
from llamaindex_inns import INNS, Words, assert_told_apart


def test_sql(scripted, tmp_path):
    database = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/inns.db")
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("create table inns (inn text, city text, rooms_vacated_by text)"))
        for town, leaves, _ in INNS:
            connection.execute(sqlalchemy.text(f"insert into inns values ('Larkmoor Inn', '{town}', '{leaves}')"))

    def make(llm):
        query = "SELECT inn, city, rooms_vacated_by FROM inns"
        both = scripted(lambda m: query if "SQLQuery" in m[-1].content else llm.reply(m))
        return NLSQLTableQueryEngine(SQLDatabase(database), tables=["inns"], llm=both, embed_model=Words())

    assert_told_apart(make, scripted)
