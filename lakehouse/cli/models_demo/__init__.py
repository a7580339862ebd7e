"""``lakehouse demo --models``: card payments and late chargebacks, from labels to a model in use, and back.

The payments are generated in ``examples.card_payments``. Steps shared with other commands call the functions of these commands.
"""
