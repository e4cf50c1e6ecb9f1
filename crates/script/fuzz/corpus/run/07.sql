\set v -3
select :v::int, :v::bigint, :missing::text, '12:30:45', :text::text;